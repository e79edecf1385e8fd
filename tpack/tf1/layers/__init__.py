"""``tf.layers`` of TensorFlow 1: layers that make their variables by ``tf.get_variable``."""

from typing import Any

from tpack.tf1.layers.base import Layer
from tpack.tf1.layers.convolutional import Conv1D, Conv2D, Conv3D, conv1d, conv2d, conv3d
from tpack.tf1.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from tpack.tf1.layers.input_spec import InputSpec
from tpack.tf1.layers.normalization import BatchNormalization, batch_normalization
from tpack.tf1.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from tpack.tf1.layers.separable import SeparableConv1D, SeparableConv2D, separable_conv1d, separable_conv2d
from tpack.tf1.layers.transposed import Conv2DTranspose, Conv3DTranspose, conv2d_transpose, conv3d_transpose
from tpack.tf1.removed_names import missing_name

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "InputSpec",
    "Layer",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "SeparableConv1D",
    "SeparableConv2D",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "batch_normalization",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dense",
    "dropout",
    "flatten",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "separable_conv1d",
    "separable_conv2d",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
