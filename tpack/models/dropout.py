"""Dropout."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import layer_name
from tpack.models.registry import layer_register
from tpack.step.step_seeds import uniform_of_step
from tpack.tower.context import current_tower_context
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments

__all__ = ["Dropout"]

_DEFAULT_RATE = 0.5


@layer_register(use_scope=None)
@check_arguments
def Dropout(x: tf.Tensor, *args: float | tf.Tensor, **kwargs: Any) -> tf.Tensor:  # noqa: N802
    """Set a random part of the elements to zero while training, and multiply the others so that the mean stays.

    Otherwise the input is returned as it is. In a training tower of a trainer, what is dropped follows from the seed of
    the graph, the step and the place, so that a run that was resumed drops what an uninterrupted one would; see
    `tpack.step.step_seeds`.

    Args:
        x: any floating-point tensor.
        *args: one number at most, the probability to *keep* an element. TensorFlow's and Keras's number at this place
            means the opposite, therefore any other than 0.5 logs a warning once; ``keep_prob`` or ``rate`` as a keyword
            cannot be misread.
        **kwargs: ``keep_prob`` (above 0 and at most 1) or ``rate``, the probability to keep or to drop, a number or a
            scalar tensor (default: drop half); ``training`` or ``is_training``, a bool or a boolean tensor (default:
            as the current tower); ``noise_shape`` and ``seed`` as for ``tf.nn.dropout``.

    Raises:
        ConfigError: The probability came more than once or is out of bounds, or an argument is unknown.
        TowerError: ``training`` is not given, and no tower is current.
    """
    rate = _take_rate(args, kwargs, x.dtype.base_dtype)
    training = _take(kwargs, "training", "is_training")
    noise_shape, seed = kwargs.pop("noise_shape", None), kwargs.pop("seed", None)
    if kwargs:
        raise ConfigError(
            f"{layer_name('Dropout')} has no argument {', '.join(kwargs)}; it has keep_prob, rate, training, "
            "is_training, noise_shape, seed"
        )
    if training is None:
        training = current_tower_context().is_training

    uniform = uniform_of_step("Dropout", seed) if tf.is_tensor(training) or training else None

    def dropped() -> tf.Tensor:
        if uniform is None:
            return tf.nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed)
        return tf.nn.experimental.general_dropout(x, rate, uniform, noise_shape=noise_shape)

    if tf.is_tensor(training):
        return tf.cond(training, dropped, lambda: tf.identity(x))
    return dropped() if training else x


def _take_rate(args: tuple[float | tf.Tensor, ...], kwargs: dict[str, Any], dtype: tf.DType) -> float | tf.Tensor:
    """Return the probability to drop, whichever way it was given."""
    given = [*(("keep_prob", arg) for arg in args), *((n, kwargs.pop(n)) for n in ("keep_prob", "rate") if n in kwargs)]
    if len(given) > 1:
        got = ", ".join(f"{name}={value}" for name, value in given)
        raise ConfigError(f"{layer_name('Dropout')} wants one probability, got {got}")
    if not given:
        return _DEFAULT_RATE
    name, value = given[0]
    if args and (tf.is_tensor(value) or value != _DEFAULT_RATE):
        log_once(
            "The number that Dropout takes without a keyword is the probability to keep, not that to drop as in "
            "TensorFlow: write keep_prob=... or rate=...",
            "warning",
        )
    rate = 1 - value if name == "keep_prob" else value
    if tf.is_tensor(rate):
        return tf.cast(rate, dtype)
    if not 0 <= rate < 1:
        bounds = "above 0 and at most 1" if name == "keep_prob" else "at least 0 and below 1"
        raise ConfigError(f"{layer_name('Dropout')} wants a {name} {bounds}, got {value}")
    return rate


def _take(kwargs: dict[str, Any], name: str, other_name: str) -> Any:
    """Return the argument given under one of two names, or None."""
    given = [kwargs.pop(n) for n in (name, other_name) if n in kwargs]
    if len(given) > 1:
        raise ConfigError(f"{layer_name('Dropout')} got {name!r} under two names: expected it once, as {name!r}")
    return given[0] if given else None
