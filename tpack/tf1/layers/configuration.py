"""What a layer is made of, as a dict that makes another one, and the values of its variables.

`Layer` has the methods, ``get_config``, ``from_config``, ``get_weights`` and ``set_weights``; this is what they do.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.varmanip import SessionUpdate
from tpack.utils.validation import shown

__all__ = ["ACTIVATIONS", "config_of", "default_session", "initializer_from_config", "load_weights"]

# The names of functions of ``tf.nn`` that may stand for them.
ACTIVATIONS = (
    *("elu", "leaky_relu", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus", "softsign", "swish", "tanh"),
)
_INITIALIZERS = (
    tf.constant_initializer,
    tf.glorot_normal_initializer,
    tf.glorot_uniform_initializer,
    tf.initializers.identity,
    tf.ones_initializer,
    tf.orthogonal_initializer,
    tf.random_normal_initializer,
    tf.random_uniform_initializer,
    tf.truncated_normal_initializer,
    tf.uniform_unit_scaling_initializer,
    tf.variance_scaling_initializer,
    tf.zeros_initializer,
)
_CLASSES = {initializer.__name__: initializer for initializer in _INITIALIZERS}
# What belongs to the place where a layer is, and not to the layer.
_OF_THE_PLACE = ("_scope", "_reuse")


def config_of(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a layer by their names: those that it has as attributes, else those that it was given.

    Args:
        layer: the layer.
        args: what its class was called with.
        kwargs: the same, by name.

    Raises:
        ConfigError: The class takes any number of arguments without names.
    """
    signature = inspect.signature(type(layer).__init__)
    kinds = {name: parameter.kind for name, parameter in list(signature.parameters.items())[1:]}
    bound = signature.bind(layer, *args, **kwargs)
    bound.apply_defaults()
    config: dict[str, Any] = {"name": layer.name, "trainable": layer.trainable, "dtype": layer.dtype}
    if inspect.Parameter.VAR_KEYWORD not in kinds.values():
        config = {name: value for name, value in config.items() if name in kinds}
    for name, kind in kinds.items():
        given = bound.arguments[name]
        if kind is inspect.Parameter.VAR_POSITIONAL and given:
            raise ConfigError(f"{type(layer).__name__} takes arguments without names: it has to say its get_config")
        if kind is inspect.Parameter.VAR_KEYWORD:
            more = {key: value for key, value in given.items() if key not in _OF_THE_PLACE}
            config.update({key: config.get(key, _plain(value)) for key, value in more.items()})
        elif kind is not inspect.Parameter.VAR_POSITIONAL and name not in config:
            config[name] = _plain(vars(layer).get(name, given))
    return config


def initializer_from_config(owner: object, config: dict[str, Any]) -> Callable[..., tf.Tensor]:
    """Return the initializer of TensorFlow 1 that a dict of ``class_name`` and ``config`` stands for.

    Raises:
        ConfigError: It stands for none.
    """
    name = config.get("class_name")
    if name not in _CLASSES or config.keys() - {"class_name", "config"}:
        known = ", ".join(sorted(_CLASSES))
        raise ConfigError(
            f"{type(owner).__name__} got the initializer {shown(config)}: expected "
            f"{{'class_name': ..., 'config': ...}} "
            f"with one of {known}"
        )
    return _CLASSES[name](**config.get("config", {}))


def default_session(layer: Any, asked: str) -> tf.Session:
    """Return the default session.

    Raises:
        ConfigError: There is none.
    """
    session = tf.get_default_session()
    if session is None:
        raise ConfigError(f"{layer.name}.{asked} wants a default session: use `with session.as_default():`")
    return session


def load_weights(layer: Any, variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Set variables of a layer in the default session, all or none.

    Raises:
        ConfigError: There are more or fewer values, or there is no default session.
        CheckpointError: One does not fit its variable.
    """
    if len(values) != len(variables):
        raise ConfigError(f"{layer.name}.set_weights got {len(values)} arrays: it has {len(variables)} variables")
    if variables:
        by_name = {v.op.name: _as_number_of(v, value) for v, value in zip(variables, values, strict=True)}
        SessionUpdate(default_session(layer, "set_weights"), variables).update(by_name)


def _as_number_of(variable: tf.Variable, value: Any) -> np.ndarray:
    """Return an array; whole numbers for a variable of fractions are such."""
    array = np.asarray(value)
    is_widened = array.dtype.kind in "iu" and variable.dtype.is_floating
    return array.astype(variable.dtype.base_dtype.as_numpy_dtype) if is_widened else array


def _plain(value: Any) -> Any:
    if type(value) in _INITIALIZERS:
        return {"class_name": type(value).__name__, "config": value.get_config()}
    if isinstance(value, tf.DType):
        return value.name
    if callable(value):
        # ``tf.tanh`` is ``tf.nn.tanh`` with a wrapper around it.
        names = [n for n in ACTIVATIONS if inspect.unwrap(getattr(tf.nn, n)) is inspect.unwrap(value)]
        return names[0] if names else value
    return value
