"""Dropout."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import layer_error, layer_name
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
    """Set a random part of the elements to zero in training, and scale the others so that the mean stays.

    In prediction the input is returned unchanged. In a training tower of a trainer, the choice of elements follows from
    the graph's seed, the step and the place, so that a resumed run drops the same as an uninterrupted one; see
    `tpack.step.step_seeds`.

    Args:
        x: any floating-point tensor.
        *args: at most one number, the probability to *keep* an element. It has the opposite meaning in TensorFlow and
            Keras, so any other than 0.5 logs a warning once; the keywords ``keep_prob`` and ``rate`` cannot be misread.
        **kwargs: ``keep_prob`` (above 0 and at most 1) or ``rate``, the probability to keep or to drop, a number or a
            scalar tensor (default: drop half); ``training`` or ``is_training``, a bool or a boolean tensor (default: as
            the current tower); ``noise_shape`` and ``seed`` as for ``tf.nn.dropout``.

    Raises:
        ConfigError: The probability is given twice or out of bounds, or an argument is unknown.
        TowerError: ``training`` is not given, and no tower is current.
    """
    rate = _take_rate(args, kwargs, x.dtype.base_dtype)
    training = _take(kwargs, "training", "is_training")
    noise_shape, seed = kwargs.pop("noise_shape", None), kwargs.pop("seed", None)
    if kwargs:
        raise ConfigError(
            f"{layer_name('Dropout')} got the arguments {', '.join(kwargs)}: expected keep_prob, rate, training, "
            "is_training, noise_shape or seed"
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
    """Return the probability to drop."""
    given = [*(("keep_prob", arg) for arg in args), *((n, kwargs.pop(n)) for n in ("keep_prob", "rate") if n in kwargs)]
    if len(given) > 1:
        got = ", ".join(f"{name}={value}" for name, value in given)
        raise ConfigError(f"{layer_name('Dropout')} got {got}: expected one probability")
    if not given:
        return _DEFAULT_RATE
    name, value = given[0]
    if args and (tf.is_tensor(value) or value != _DEFAULT_RATE):
        log_once(
            "Dropout's positional number is the probability to keep, not to drop as in TensorFlow; use keep_prob=... "
            "or rate=...",
            "warning",
        )
    rate = 1 - value if name == "keep_prob" else value
    if tf.is_tensor(rate):
        return tf.cast(rate, dtype)
    if not 0 <= rate < 1:
        bounds = "above 0 and at most 1" if name == "keep_prob" else "at least 0 and below 1"
        raise layer_error("Dropout", name, value, f"a number {bounds}")
    return rate


def _take(kwargs: dict[str, Any], name: str, other_name: str) -> Any:
    """Return the argument given under one of two names, or None."""
    given = [kwargs.pop(n) for n in (name, other_name) if n in kwargs]
    if len(given) > 1:
        raise ConfigError(f"{layer_name('Dropout')} got {name!r} under two names: expected it once, as {name!r}")
    return given[0] if given else None
