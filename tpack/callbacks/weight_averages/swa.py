"""Stochastic weight averaging: the plain mean of the weights at the ends of epochs."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import WithSteps
from tpack.callbacks.weight_averages.base import WeightAverages, make_variable
from tpack.callbacks.weight_averages.batch_norm import batch_norm_statistics
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class SWA(WeightAverages):
    """Keep the mean of the weights at the end of each epoch, from one epoch on, and evaluate on it.

    All epochs count the same. Before the first, evaluations use the weights. Averaging works best while the learning
    rate stays high or cycles, since the weights then differ: see `ScheduledHyperParamSetter` and `tpack.schedules`.

    With several towers, the main tower's variables are averaged. The means are saved with the weights, and resumed runs
    continue them; after a checkpoint without them averaging begins there. With several workers each keeps the same
    means after ``set_chief_only(False)``, which an evaluation on all of them needs.

    Variables that are not trainable are not averaged. Batch normalization statistics belong to other weights than the
    mean: with ``batch_norm_data`` they are estimated before each use of the means and restored afterwards. For this,
    the main training tower runs forward on these batches, and each statistic becomes the plain mean over the batches of
    the targets of the layers of tpack, Keras and TensorFlow 1. Layers that normalize over all towers get a batch for
    each tower. Nothing is trained, and the training data are not read, so these must be another object.

    Args:
        start_epoch: the first epoch whose weights count, from 1.
        every_steps: count the weights after each step whose global number is a multiple of it, instead of at the ends
            of epochs; still from the first step of ``start_epoch`` on.
        name: the means are called ``<variable>/<name>``.
        batch_norm_data: batches for a training tower: a `DataFlow`, or other data of `InferenceRunner` except a
            ``tf.data.Dataset``. None leaves the statistics alone.
        batch_norm_steps: the number of batches each time; the data restart at their end. None for one pass.
        batch_size: the examples in a batch, if ``batch_norm_data`` gives examples.

    Creates:
        A global variable for each trainable one, on its device, and ``<name>/num_updates``, ``<name>/last_step``.

    Raises:
        ConfigError: a number is below 1, or the data for batch normalization cannot be used.

    Example:
        swa = SWA(start_epoch=75, batch_norm_data=batches)
        callbacks = [swa, swa.evaluate(InferenceRunner(validation, ScalarStats("error", prefix="swa"))), ModelSaver()]

    Source:
        Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization",
        https://arxiv.org/abs/1803.05407
    """

    def __init__(
        self,
        start_epoch: int = 1,
        *,
        every_steps: int | None = None,
        name: str = "SWA",
        batch_norm_data: Any = None,
        batch_norm_steps: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self._start_epoch = check_count(self, "start_epoch", start_epoch)
        self._every_steps = None if every_steps is None else check_count(self, "every_steps", every_steps)
        self._last_step: tf.Variable
        self._step: tf.Tensor
        super().__init__(name, batch_norm_statistics(self, batch_norm_data, batch_norm_steps, batch_size=batch_size))

    def _make_update(self) -> tf.Operation:
        self._last_step = make_variable(f"{self._suffix}/last_step", [], tf.int64, "")
        self._step = tf.placeholder(tf.int64, [], "step")
        with tf.name_scope("update"), tf.control_dependencies([self._last_step.assign(self._step).op]):
            return self._move_averages(1 / tf.cast(self._num_updates.assign_add(1).read_value(), tf.float64))

    def _trigger_step(self) -> None:
        if self._every_steps is not None and self.global_step % self._every_steps == 0:
            self._take_weights()

    def _after_epoch(self) -> None:
        if self._every_steps is None:
            self._take_weights()

    def _take_weights(self) -> None:
        """Count the weights of this step once, even if a resumed run repeats the end of an epoch."""
        step, session = self.global_step, self.trainer.sess
        if self.epoch_num >= self._start_epoch and step != session.run(self._last_step):
            session.run(self._update, {self._step: step})

    def _with_several_steps(self) -> WithSteps | None:
        period = self._every_steps
        if period is None:
            return WithSteps()
        return WithSteps(steps_left=lambda: period - self.global_step % period)

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; without ``every_steps`` a step costs nothing."""
        return self._every_steps is not None if hook == "trigger_step" else super().implements(hook)
