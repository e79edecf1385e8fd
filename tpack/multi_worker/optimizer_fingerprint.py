"""Fingerprint of an optimizer: its learning rate and other constants, to compare between workers.

Workers apply the same gradients, each with an optimizer of its own: with another learning rate, variables diverge and
nothing fails. The fingerprint has numbers, truth values, and tensors by the constants that they are computed from, of
the optimizer, of those inside of it and of its gradient processors. All workers take variables from worker 0.
"""

import dataclasses
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors, is_handle
from tpack.tfutils.gradproc import GradientProcessor

# Attributes that TensorFlow derives from the others, its own notes, and those that depend on the worker.
_LEFT_OUT_BEGIN, _LEFT_OUT_ENDS = "_self_", ("_t", "_tensor")
_LEFT_OUT_WORDS = ("rank", "worker", "replica", "task", "slots", "non_slot")


def fingerprint_of_updates(graph: tf.Graph) -> dict[str, str]:
    """Return the settings of the optimizers of a graph, by the kind of update and the name of each setting.

    The texts do not depend on the number of variables and towers.

    Example:
        ``{"ApplyMomentum.lr": "computed from 0.1", "ApplyMomentum.momentum": "computed from 0.9"}``
    """
    found: dict[str, set[str]] = {}
    for op in graph.get_operations():
        _, is_update, kind = op.type.rpartition("Apply")
        if is_update:
            for argument, tensor in zip(op.op_def.input_arg, op.inputs, strict=False):
                if argument.name in op_kinds.SETTINGS_OF_UPDATES:
                    found.setdefault(f"Apply{kind}.{argument.name}", set()).add(_numbers_into(tensor))
    return {name: " or ".join(sorted(texts)) for name, texts in found.items()}


def updated_by_optimizers(graph: tf.Graph) -> set[str]:
    """Return the names of the variables that a graph's optimizers update: the trained ones and their slots."""
    return {
        tensor.op.name
        for op in graph.get_operations()
        if op.type.rpartition("Apply")[1]
        for tensor in op.inputs
        if is_handle(tensor)
    }


def fingerprint_of_optimizer(optimizer: tf.train.Optimizer) -> dict[str, Any]:
    """Return the settings of an optimizer, by the class and the name of each setting.

    Example:
        ``{"MomentumOptimizer.learning_rate": 0.1, "MomentumOptimizer.momentum": 0.9, ...}``
    """
    return dict(_settings(type(optimizer).__name__, optimizer, set()))


def _settings(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseVariable):
        return
    if isinstance(value, numbers.Real | np.generic | np.ndarray):
        yield name, _shown(value)
    elif isinstance(value, tf.Tensor):
        yield name, _numbers_into(value)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _settings(f"{name}[{index}]", each, seen)
    elif _has_settings(value) and id(value) not in seen:
        seen.add(id(value))
        for inside, each in _attributes(value):
            yield from _settings(f"{name}.{inside}", each, seen)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the possible settings of an optimizer, by class or name."""
    for name, each in vars(value).items():
        is_noted = name.startswith(_LEFT_OUT_BEGIN) or name.endswith(_LEFT_OUT_ENDS)
        if not is_noted and not any(word in name for word in _LEFT_OUT_WORDS):
            yield type(each).__name__ if _has_settings(each) else name.strip("_"), each


def _has_settings(value: Any) -> bool:
    is_data = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return isinstance(value, tf.train.Optimizer | GradientProcessor) or is_data


def _shown(value: Any) -> Any:
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else f"{array.dtype} {array.shape}, sum {array.sum()}"


def _numbers_into(tensor: tf.Tensor) -> str:
    """Return the constants that a tensor is computed from, as text."""
    # Sorted by value, since the order of operations is that of their creation and no matter here.
    constants = [op for op in ancestors([tensor]) if op.type == "Const"]
    values = [tf.make_ndarray(op.get_attr("value")) for op in constants]
    single = sorted(str(_shown(value)) for value in values if value.ndim == 0 and value.dtype.kind in "fiub")
    arrays = len(values) - len(single)
    return f"computed from {', '.join([*single, *([f'{arrays} arrays'] if arrays else [])]) or 'no numbers'}"
