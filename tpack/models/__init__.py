"""Layers: functions that make variables and operations under one name, with tensorpack's names and variable names."""

from tpack.models.batch_norm import BatchNorm
from tpack.models.batch_renorm import BatchRenorm
from tpack.models.conv2d import Conv2D
from tpack.models.conv2d_transpose import Conv2DTranspose, Deconv2D
from tpack.models.dropout import Dropout
from tpack.models.fc import FullyConnected
from tpack.models.linearwrap import ConcatWith, LinearWrap
from tpack.models.nonlin import BNReLU, Maxout, PReLU
from tpack.models.norms import GroupNorm, InstanceNorm, LayerNorm
from tpack.models.pool import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from tpack.models.registry import disable_layer_logging, layer_register
from tpack.models.regularize import (
    add_keras_losses,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tpack.models.tflayer import rename_tflayer_get_variable
from tpack.models.variables import VariableHolder
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "AvgPooling",
    "BatchNorm",
    "BatchRenorm",
    "BNReLU",
    "ConcatWith",
    "Conv2D",
    "Conv2DTranspose",
    "Deconv2D",
    "Dropout",
    "FixedUnPooling",
    "FullyConnected",
    "GlobalAvgPooling",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LinearWrap",
    "MaxPooling",
    "Maxout",
    "PReLU",
    "VariableHolder",
    "add_keras_losses",
    "disable_layer_logging",
    "l1_regularizer",
    "l2_regularizer",
    "layer_register",
    "regularize_cost",
    "regularize_cost_from_collection",
    "rename_tflayer_get_variable",
]
