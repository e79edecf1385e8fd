"""Memories of an exchange: what an encoding loses is kept by the worker and added to a later gradient.

A memory compensates a gradient before it is encoded, and is updated by the difference between that and what was sent.
"""

import abc
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.utils.validation import check_arguments, check_number, mismatch


def check_decay(owner: object, name: str, value: float) -> None:
    """Raise a ConfigError for a decay that is not at least 0 and less than 1."""
    if check_number(owner, name, value, 0, 1) == 1:
        raise ConfigError(mismatch(owner, name, value, "a number of at least 0 and less than 1"))


class Memory(abc.ABC):
    """Memory of a worker's gradients from step to step, beside a codec; it holds settings and no state of a graph."""

    @abc.abstractmethod
    def compensate(self, values: tf.Tensor, state: RankState) -> "Compensated":
        """Return what is encoded in place of a gradient, on the current device.

        Args:
            values: the gradient, of a known shape.
            state: makes variables.
        """

    def for_sums(self) -> "Memory":
        """Return the memory of a worker for sums that it encodes for the way back."""
        return ErrorFeedback()

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Compensated(abc.ABC):
    """A gradient on its way through a memory.

    Attributes:
        values: what is encoded in place of the gradient.
    """

    values: tf.Tensor

    @abc.abstractmethod
    def sent(self, values: tf.Tensor) -> None:
        """Note what the others decode of it."""

    def received(self, total: tf.Tensor) -> tf.Tensor:
        """Return the gradient that the worker gets for the sum or mean of what all sent."""
        return total

    def received_plain(self, total: tf.Tensor) -> None:  # noqa: B027 (most memories need nothing of it)
        """Note the sum or mean in a step in which gradients are not encoded yet."""


@check_arguments
@dataclass(frozen=True)
class ErrorFeedback(Memory):
    """Memory of the error of each encoding, which is added to the next gradient.

    In each step what was sent and what is kept sum up to the gradient and what was kept before, so nothing is lost, but
    comes later. A worker that adds parts of large gradients also keeps the errors of the sums that it encodes.

    Args:
        decay: the factor of the error that was kept, 1 for all of it.

    Raises:
        ConfigError: ``decay`` is not within 0 and 1, or 0.

    Source:
        Seide et al., 1-Bit Stochastic Gradient Descent, 2014; Karimireddy et al., Error Feedback Fixes SignSGD, 2019.
    """

    decay: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "decay", self.decay, 0, 1, is_low_allowed=False)

    def compensate(self, values: tf.Tensor, state: RankState) -> Compensated:
        """See `Memory.compensate`."""
        return _WithError(values, state, self.decay)

    def for_sums(self) -> Memory:
        """See `Memory.for_sums`."""
        return self


class _WithError(Compensated):
    def __init__(self, values: tf.Tensor, state: RankState, decay: float) -> None:
        self._state = state
        self._error = state.variable("error", values.shape, values.dtype)
        error = self._error.read_value()
        self.values = values + (error if decay == 1 else error * decay)

    def sent(self, values: tf.Tensor) -> None:
        self._state.update(self._error, self.values - values)


class NoMemory(Memory):
    """No memory: what an encoding loses is lost."""

    def compensate(self, values: tf.Tensor, state: RankState) -> Compensated:
        """See `Memory.compensate`."""
        return _AsItIs(values)

    def for_sums(self) -> Memory:
        """See `Memory.for_sums`."""
        return self


class _AsItIs(Compensated):
    def __init__(self, values: tf.Tensor) -> None:
        self.values = values

    def sent(self, values: tf.Tensor) -> None:
        """Keep nothing."""


@check_arguments
@dataclass(frozen=True)
class MomentumCorrection(Memory):
    """Memory of Deep Gradient Compression: momentum is added up by each worker, before the encoding.

    ``u = momentum * u + gradient; v = v + u``, and ``v`` is encoded. What was sent is taken out of ``v`` and set to
    zero in ``u``, so that a coordinate that waits long is not moved by old momentum. The optimizer has no momentum
    then.

    Args:
        momentum: the factor of momentum.
        masks: set ``u`` to zero where it was sent.

    Raises:
        ConfigError: ``momentum`` is not within 0 and 1, or 1.

    Source:
        Lin et al., Deep Gradient Compression, 2018.
    """

    momentum: float = 0.9
    masks: bool = True

    def __post_init__(self) -> None:
        check_decay(self, "momentum", self.momentum)

    def compensate(self, values: tf.Tensor, state: RankState) -> Compensated:
        """See `Memory.compensate`."""
        return _WithMomentum(values, state, self)


class _WithMomentum(Compensated):
    def __init__(self, values: tf.Tensor, state: RankState, how: MomentumCorrection) -> None:
        self._state, self._masks = state, how.masks
        self._momentum = state.variable("momentum", values.shape, values.dtype)
        self._unsent = state.variable("unsent", values.shape, values.dtype)
        self._moved = how.momentum * self._momentum.read_value() + values
        self.values = self._unsent.read_value() + self._moved

    def sent(self, values: tf.Tensor) -> None:
        kept = tf.where(tf.equal(values, 0), self._moved, tf.zeros_like(values)) if self._masks else self._moved
        self._state.update(self._momentum, kept)
        self._state.update(self._unsent, self.values - values)


@check_arguments
@dataclass(frozen=True)
class MomentumFeedback(Memory):
    """Memory of 1-bit Adam: Adam's momentum travels in place of the gradient, with feedback of the errors.

    Each worker adds its gradient to the common momentum, and encodes the result; the mean is the next momentum. The
    gradient that leads Adam there is what the worker gets. For `OneBitAdam`, with the same ``beta1``, and with
    ``start_step`` of the exchange as ``freeze_step`` of the optimizer.

    Args:
        beta1: Adam's decay of momentum.

    Raises:
        ConfigError: ``beta1`` is not within 0 and 1, or 1.

    Source:
        Tang et al., 1-bit Adam, 2021.
    """

    beta1: float = 0.9

    def __post_init__(self) -> None:
        check_decay(self, "beta1", self.beta1)

    def compensate(self, values: tf.Tensor, state: RankState) -> Compensated:
        """See `Memory.compensate`."""
        return _AsMomentum(values, state, self.beta1)


class _AsMomentum(Compensated):
    def __init__(self, values: tf.Tensor, state: RankState, beta1: float) -> None:
        self._state, self._beta1 = state, beta1
        self._momentum = state.variable("momentum", values.shape, values.dtype)
        self._error = state.variable("error", values.shape, values.dtype)
        self._before = self._momentum.read_value()
        share = beta1 / state.num_summands * self._before
        self.values = share + (1 - beta1) * values + self._error.read_value()

    def sent(self, values: tf.Tensor) -> None:
        self._state.update(self._error, self.values - values)

    def received(self, total: tf.Tensor) -> tf.Tensor:
        self._state.update(self._momentum, total)
        return (total - self._beta1 * self._before) / (1 - self._beta1)

    def received_plain(self, total: tf.Tensor) -> None:
        before = self._momentum.read_value()
        self._state.update(self._momentum, before + (total - before) * (1 - self._beta1))
