"""What layers take in several forms: sizes, data formats, and functions that may be given by Keras's names of them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.layers.base import Initializer, Regularizer
from tpack.tf1.layers.configuration import ACTIVATIONS, initializer_from_config
from tpack.utils.validation import check_choice, check_count, check_function, mismatch

Activation: TypeAlias = Callable[[tf.Tensor], tf.Tensor] | str | None
"""A function of a layer's result, or its name in ``tf.nn``; None for none."""

Constraint: TypeAlias = Callable[[tf.Tensor], tf.Tensor] | None
"""What optimizers do to a variable after each update."""

Sizes: TypeAlias = int | Sequence[int]
"""A number for each dimension, or one for all."""

_FUNCTION = "a function, a name or None"

# The initializers that layers show as their defaults.
ZEROS = tf.zeros_initializer()
ONES = tf.ones_initializer()

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"

_INITIALIZERS: dict[str, Callable[[], Any]] = {
    "glorot_normal": tf.glorot_normal_initializer,
    "glorot_uniform": tf.glorot_uniform_initializer,
    "he_normal": tf.initializers.he_normal,
    "he_uniform": tf.initializers.he_uniform,
    "identity": tf.initializers.identity,
    "lecun_normal": tf.initializers.lecun_normal,
    "lecun_uniform": tf.initializers.lecun_uniform,
    "normal": lambda: tf.random_normal_initializer(stddev=0.05),
    "ones": tf.ones_initializer,
    "orthogonal": tf.orthogonal_initializer,
    "random_normal": lambda: tf.random_normal_initializer(stddev=0.05),
    "random_uniform": lambda: tf.random_uniform_initializer(-0.05, 0.05),
    "truncated_normal": lambda: tf.truncated_normal_initializer(stddev=0.05),
    "uniform": lambda: tf.random_uniform_initializer(-0.05, 0.05),
    "zeros": tf.zeros_initializer,
}
_REGULARIZERS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "l1": lambda x: 0.01 * tf.reduce_sum(tf.abs(x)),
    "l1_l2": lambda x: 0.01 * tf.reduce_sum(tf.abs(x)) + 0.01 * tf.reduce_sum(tf.square(x)),
    "l2": lambda x: 0.01 * tf.reduce_sum(tf.square(x)),
}
_SMALL = 1e-7
_CONSTRAINTS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "max_norm": lambda w: w * tf.minimum(_norms(w), 2.0) / (_SMALL + _norms(w)),
    "non_neg": lambda w: tf.where(w >= 0, w, tf.zeros_like(w)),
    "unit_norm": lambda w: w / (_SMALL + _norms(w)),
}


def activation_of(owner: object, activation: Activation) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Return an activation that is given as a function, by name, or not at all.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    if activation is None or activation == "linear":
        return None
    if isinstance(activation, str):
        return getattr(tf.nn, check_choice(owner, "activation", activation, ("linear", *ACTIVATIONS)))
    return check_function(owner, "activation", activation, _FUNCTION)


def initializer_of(owner: object, initializer: Any) -> Initializer:
    """Return an initializer that is given as such, as its class, a tensor, a name or a configuration, or not at all.

    One of Keras draws the same numbers each time, as it does in Keras.

    Raises:
        ConfigError: The name or configuration is not known.
    """
    if isinstance(initializer, dict):
        return initializer_from_config(owner, initializer)
    if isinstance(initializer, str):
        return _INITIALIZERS[check_choice(owner, "initializer", initializer, _INITIALIZERS)]()
    return initializer() if isinstance(initializer, type) else initializer


def regularizer_of(owner: object, regularizer: Any) -> Regularizer:
    """Return a regularizer that is given as a function, by name, or not at all.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    if isinstance(regularizer, str):
        return _REGULARIZERS[check_choice(owner, "regularizer", regularizer, _REGULARIZERS)]
    return None if regularizer is None else check_function(owner, "regularizer", regularizer, _FUNCTION)


def constraint_of(owner: object, constraint: Any) -> Constraint:
    """Return a constraint that is given as a function, by name, or not at all.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    if isinstance(constraint, str):
        return _CONSTRAINTS[check_choice(owner, "constraint", constraint, _CONSTRAINTS)]
    return None if constraint is None else check_function(owner, "constraint", constraint, _FUNCTION)


def check_data_format(owner: object, data_format: str) -> str:
    """Return the name of a data format in lower case.

    Raises:
        ConfigError: It is none.
    """
    name = data_format.lower() if isinstance(data_format, str) else data_format
    return check_choice(owner, "data_format", name, (CHANNELS_LAST, CHANNELS_FIRST))


def check_padding(owner: object, padding: str, *others: str) -> str:
    """Return the name of a rule to pad by, in lower case.

    Raises:
        ConfigError: It is none.
    """
    name = padding.lower() if isinstance(padding, str) else padding
    return check_choice(owner, "padding", name, ("valid", "same", *others))


def count_of(owner: object, name: str, value: Any) -> int:
    """Return a positive number; one that was divided, as scripts do with numbers of units, is a whole ``float``.

    Raises:
        ConfigError: It is not positive, or not whole.
    """
    value = getattr(value, "value", value)
    is_whole = isinstance(value, float | np.floating) and value == int(value)
    return check_count(owner, name, int(value) if is_whole else value)


def sizes_of(owner: object, name: str, sizes: Any, rank: int) -> tuple[int, ...]:
    """Return a positive number for each dimension.

    Raises:
        ConfigError: There are more or fewer, or they are no positive integers.
    """
    values = list(sizes) if isinstance(sizes, list | tuple | np.ndarray | tf.TensorShape) else [sizes] * rank
    if len(values) != rank:
        raise ConfigError(mismatch(owner, name, sizes, f"one number or {rank}"))
    return tuple(check_count(owner, name, getattr(value, "value", value)) for value in values)


def _norms(w: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=0, keepdims=True))
