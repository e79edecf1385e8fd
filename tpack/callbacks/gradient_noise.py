"""The noise scale of gradients: from which batch size on a larger batch no longer saves as many steps.

Gradients of a tower's batch and their mean over all towers are estimates of one gradient from two batch sizes. Both
have a squared norm of that gradient plus a variance that falls with the batch size, so the two norms give both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.errors import CallbackError, ConfigError
from tpack.reduction.sums import on_device, on_device_of, widened
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments, check_count, check_number, mismatch

_HERE = "/device:CPU:0"


@check_arguments
class GradientNoiseScale(Callback):
    """Report the noise scale of the gradients of several towers: see Source.

    Batches much smaller than it use nearly all examples well, and much larger ones few: at the noise scale, training
    takes twice the least number of steps and twice the least number of examples. It grows during training.

    For trainers that apply in each step the sum or mean of the gradients of at least two towers, of all workers. When
    triggered, it reports smoothed values: ``gradient_noise/squared_norm`` of the gradient of all data,
    ``gradient_noise/trace`` of the covariance of the gradients of single examples, and ``gradient_noise/scale``, the
    second divided by the first, in examples; that only while the first is positive, since it is an estimate.

    Gradients are those of the cost, with its regularisation, before the optimizer changes them. A step that takes the
    norms reads the gradients of the towers once more.

    Args:
        batch_size: the number of examples in the batch of a tower, the same in all.
        every_steps: estimate in each step whose global number is a multiple of it. Steps in between cost nothing,
            except where steps are compiled.
        smoothing: the share of the earlier estimates in the smoothed ones. A single estimate is noisy; larger models
            and more towers need less smoothing.

    Raises:
        ConfigError: A number is out of range.
        CallbackError: When training is set up: the trainer has one tower, or applies something else.

    Example:
        ``GradientNoiseScale(batch_size=64, every_steps=10)``

    Source:
        McCandlish et al., "An Empirical Model of Large-Batch Training", appendix A, https://arxiv.org/abs/1812.06162
    """

    def __init__(self, batch_size: int, *, every_steps: int = 1, smoothing: float = 0.9) -> None:
        self._batch_size = check_count(self, "batch_size", batch_size)
        self._every_steps = check_count(self, "every_steps", every_steps)
        if check_number(self, "smoothing", smoothing, 0) >= 1:
            raise ConfigError(mismatch(self, "smoothing", smoothing, "a number of at least 0 and below 1"))
        self._smoothing = smoothing
        self._num_towers = 0
        self._norms: tf.Tensor | None = None
        self._is_due = False
        # Of the squared norm, of the trace, and of 1, by which both are divided.
        self._smoothed = np.zeros(3)

    def _setup_graph(self) -> None:
        gradients = self.trainer.gradients
        if gradients is None or gradients.num_towers < 2:
            raise CallbackError(
                f"{self} got {type(self.trainer).__name__}: expected a trainer that applies in each step the sum or "
                "mean of the gradients of at least two towers; use SyncMultiGPUTrainerReplicated(2) or "
                "MultiWorkerTrainerReplicated, without accumulate, local steps, Adasum, codecs or a scaled cost"
            )
        self._num_towers = gradients.num_towers
        own = [squared_norm(row) for row in gradients.towers]
        divisor = 1 if gradients.op is ReduceOp.MEAN else gradients.num_towers
        with on_device(_HERE):
            of_mean = squared_norm(gradients.reduced) / divisor**2
            self._norms = tf.stack([tf.add_n(own) / len(own), of_mean], name="norms")

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Tensor | None:
        self._is_due = (self.global_step + self.trainer.loop.num_coming) % self._every_steps == 0
        return self._norms if self.trainer.is_compiled or self._is_due else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is None or not self._is_due:
            return
        if not np.isfinite(values.results).all():
            log_once(f"{self} leaves out steps whose gradients are not finite.", "warning")
            return
        of_towers, of_mean = values.results
        estimates = noise_estimates(of_towers, of_mean, self._batch_size, self._num_towers)
        self._smoothed = self._smoothing * self._smoothed + (1 - self._smoothing) * np.array([*estimates, 1.0])

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(last=() if self._norms is None else (self._norms,), steps_left=self._steps_left)

    def _steps_left(self) -> int:
        return self._every_steps - self.global_step % self._every_steps

    def _trigger(self) -> None:
        square, trace, share = self._smoothed
        if not share:
            return
        monitors = self.trainer.monitors
        monitors.put_scalar("gradient_noise/squared_norm", float(square / share))
        monitors.put_scalar("gradient_noise/trace", float(trace / share))
        if square > 0:
            monitors.put_scalar("gradient_noise/scale", float(trace / square))
        else:
            log_once(
                f"{self} cannot tell the noise scale: the estimate of the gradient's squared norm is not positive. Use "
                "a smoothing closer to 1, larger batches or more towers."
            )

    def _state_to_save(self) -> Any:
        return self._smoothed.tolist()

    def _load_saved_state(self, state: Any) -> None:
        self._smoothed = np.array(state)


def noise_estimates(of_towers: float, of_mean: float, batch_size: int, num_towers: int) -> tuple[float, float]:
    """Return unbiased estimates of the gradient's squared norm and of the trace of the covariance of one example.

    Args:
        of_towers: the mean of the squared norms of towers' gradients.
        of_mean: the squared norm of the mean of all towers' gradients.
        batch_size: the number of examples of a tower.
        num_towers: the number of towers, at least 2.
    """
    whole = batch_size * num_towers
    square = (whole * of_mean - batch_size * of_towers) / (whole - batch_size)
    trace = (of_towers - of_mean) / (1 / batch_size - 1 / whole)
    return square, trace


def squared_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """Return the sum of squares of gradients, a float64 on the CPU; each is summed on its device."""
    squares = []
    for gradient in gradients:
        with on_device_of(gradient):
            squares.append(2 * tf.cast(tf.nn.l2_loss(widened(_without_duplicates(gradient))), tf.float64))
    with on_device(_HERE):
        return tf.add_n(squares)


def _without_duplicates(gradient: Gradient) -> tf.Tensor:
    """Return a dense gradient, or the rows of a sparse one, those of one index added."""
    if not is_sparse(gradient):
        return gradient
    rows, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
