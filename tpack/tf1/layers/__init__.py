"""``tf.layers`` of TensorFlow 1: layers that make their variables by ``tf.get_variable``."""

from typing import Any

from tpack.tf1.layers.base import InputSpec, Layer
from tpack.tf1.layers.convolutional import Conv1D, Conv2D, Conv3D, conv1d, conv2d, conv3d
from tpack.tf1.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from tpack.tf1.missing import missing_name

__all__ = [
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Dense",
    "Dropout",
    "Flatten",
    "InputSpec",
    "Layer",
    "conv1d",
    "conv2d",
    "conv3d",
    "dense",
    "dropout",
    "flatten",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
