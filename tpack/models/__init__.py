"""Layers: functions that make variables and operations under one name, with tensorpack's names and variable names."""

from tpack.models.registry import disable_layer_logging, layer_register
from tpack.models.variable_holder import VariableHolder

__all__ = [
    "VariableHolder",
    "disable_layer_logging",
    "layer_register",
]
