"""Layers: functions that make variables and operations under one name, with tensorpack's names and variable names."""

from tpack.models.batch_norm import BatchNorm
from tpack.models.batch_renorm import BatchRenorm
from tpack.models.bn_relu import BNReLU
from tpack.models.conv2d import Conv2D
from tpack.models.conv2d_transpose import Conv2DTranspose, Deconv2D
from tpack.models.dropout import Dropout
from tpack.models.fc import FullyConnected
from tpack.models.instance_norm import InstanceNorm
from tpack.models.keras_losses import add_keras_losses
from tpack.models.layer_norm import LayerNorm
from tpack.models.linearwrap import LinearWrap
from tpack.models.nonlin import Maxout, PReLU
from tpack.models.norms import GroupNorm
from tpack.models.pool import AvgPooling, GlobalAvgPooling, MaxPooling
from tpack.models.registry import disable_layer_logging, layer_register
from tpack.models.regularize import (
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tpack.models.shapes import ConcatWith
from tpack.models.tflayer import rename_tflayer_get_variable
from tpack.models.unpool import FixedUnPooling
from tpack.models.variable_holder import VariableHolder

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
