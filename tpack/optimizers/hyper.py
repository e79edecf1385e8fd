"""Arguments of optimizers: checked hyper-parameters, and variables that are excluded by name.

A hyper-parameter is a number; or a tensor, a variable or a function that returns one, which may change during training.
Names are those of the main tower, without the scopes of other towers, devices and parts, so that a pattern matches the
same variables in all towers.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.errors import ConfigError
from tpack.tfutils.scope_utils import variable_name_without_tower
from tpack.utils import logger
from tpack.utils.validation import check_number, owner_name, shown

__all__ = ["BIASES_AND_NORMS", "HyperValue", "LeftOut", "Patterns", "as_dtype_of", "check_hyper", "check_hypers"]

HyperValue: TypeAlias = float | tf.Tensor | tf.Variable | Callable[[], Any]
"""A number, or a value that may change during training."""

Patterns: TypeAlias = str | Sequence[str]
"""One regular expression or several."""

BIASES_AND_NORMS = r"(^|/)(b|bias|biases|beta|gamma|scale|offset)(_\d+)?$"
"""Matches biases, and scales and shifts of normalisations, in tpack, Keras, TF-Slim and Haiku."""

_WAY_OF_SCHEDULES = (
    'rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False), and the callback '
    'ScheduledHyperParamSetter("learning_rate", schedule)'
)


def check_hypers(owner: object, low: float = 0.0, high: float = float("inf"), **values: HyperValue) -> None:
    """Check several hyper-parameters of one range, as `check_hyper` does."""
    for name, value in values.items():
        check_hyper(owner, name, value, low, high)


def check_hyper(owner: object, name: str, value: HyperValue, low: float = 0.0, high: float = float("inf")) -> None:
    """Check a hyper-parameter as far as it is known when the graph is built.

    Args:
        owner: its owner, for the message.
        name: its name.
        value: its value. Later numbers of a tensor, variable or function are not checked.
        low: the least number.
        high: the largest number.

    Raises:
        WrongTypeError: It is neither a number nor a source of one.
        ConfigError: The number is out of range; a tensor or variable is not a scalar; a function has required
            arguments.
    """
    shape = tf.TensorShape(getattr(value, "shape", []))
    if not shape.is_compatible_with([]):
        raise ConfigError(f"{owner_name(owner)} got {name} of shape {shape}: expected a scalar")
    if tf.is_tensor(value) or isinstance(value, BaseVariable):
        return
    if callable(value):
        _check_call(owner, name, value)
    else:
        check_number(owner, name, value.item() if isinstance(value, np.ndarray) else value, low, high)


def _check_call(owner: object, name: str, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(
            f"{owner_name(owner)} got {name}={shown(function)}, a function with arguments ({error}): expected a "
            f"number, a tensor, or a variable that a callback sets; use {_WAY_OF_SCHEDULES}"
        ) from error
    except ValueError:
        # Functions in C have no signature.
        return


def as_dtype_of(var: tf.Variable, *values: HyperValue) -> list[tf.Tensor]:
    """Return hyper-parameters, numbers, tensors or functions of them, as tensors in the dtype of a variable."""
    called: list[Any] = [value() if callable(value) and not tf.is_tensor(value) else value for value in values]
    dtype = var.dtype.base_dtype
    # Numbers are converted directly: ``tf.cast`` would round them to 32 bits first.
    return [tf.constant(v, dtype) if isinstance(v, int | float) else tf.cast(v, dtype) for v in called]


class LeftOut:
    """Variables that are excluded from one part of an optimizer.

    Args:
        owner: the optimizer.
        name: the argument with the patterns.
        patterns: regular expressions; variables whose name contains a match are excluded.
        what: the part of the optimizer, for the log.

    Raises:
        ConfigError: A pattern is invalid.
    """

    def __init__(self, owner: object, name: str, patterns: Patterns, what: str) -> None:
        self._owner = owner_name(owner)
        self._name = name
        self._what = what
        self._patterns: list[re.Pattern[str]] = []
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            try:
                self._patterns.append(re.compile(pattern))
            except re.error as error:
                raise ConfigError(
                    f"{self._owner} got {name}={shown(pattern)}: expected a regular expression ({error})"
                ) from error

    def has(self, variable: tf.Variable) -> bool:
        """Tell whether a variable is excluded."""
        name = _name_of(variable)
        return any(pattern.search(name) for pattern in self._patterns)

    def tell(self, variables: Iterable[tf.Variable]) -> None:
        """Log the excluded variables, and warn of a pattern that matches none."""
        if not self._patterns:
            return
        names = [_name_of(variable) for variable in variables]
        found = [name for name in names if any(pattern.search(name) for pattern in self._patterns)]
        logger.info(
            f"{self._owner}: no {self._what} for {len(found)} of {len(names)} variables{': ' if found else ''}"
            f"{', '.join(found)}"
        )
        for pattern in self._patterns:
            if not any(pattern.search(name) for name in names):
                logger.warning(f"{self._owner}: {self._name} has {pattern.pattern!r}, which is in no variable's name")


def _name_of(variable: tf.Variable) -> str:
    """Return the name of a variable in the main tower, without the suffix of a partition."""
    name = variable_name_without_tower(variable)
    return name if slice_of(variable) is None else name.rpartition("/part_")[0]


def slice_of(variable: tf.Variable) -> Any:
    """Return the slice of a whole variable that this one is; None if it is the whole."""
    return getattr(variable, "_save_slice_info", None)


def refuse_part(owner: object, variable: tf.Variable) -> None:
    """Refuse a part of a variable for an update that depends on all of it.

    Raises:
        ConfigError: It is a part.
    """
    if slice_of(variable) is not None:
        raise ConfigError(
            f"{owner_name(owner)} got {variable.op.name}, a part of a variable: expected a whole one, for its norm; "
            "make it without a partitioner"
        )
