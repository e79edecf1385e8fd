"""Exponential moving averages of the weights, which usually predict better than the weights of any one step."""

from __future__ import annotations

import math
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import WithSteps
from tpack.callbacks.weight_averages.base import WeightAverages
from tpack.callbacks.weight_averages.batch_norm import batch_norm_statistics
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, mismatch


@check_arguments
class EMA(WeightAverages):
    """Keep a moving average of each trainable variable, and evaluate on the averages.

    After step t the average is the weighted mean of the variable after each of the steps 1 to t, with the weight
    ``decay ** (t - i)`` for step i. So it is not biased towards initial values: after the first step it equals the
    variable, and no schedule of decays is needed. The averages are saved with the weights, and resumed runs continue
    them; after a checkpoint without them averaging begins there.

    With several towers, the main tower's variables are averaged, in the run of the train op, after it; a step without
    the train op is averaged at its end. Variables that are not trainable, such as batch normalization statistics, are
    not averaged, unless there is ``batch_norm_data``: see `SWA`.

    Args:
        decay: the fraction of the average that each step keeps, in [0, 1).
        name: the averages are called ``<variable>/<name>``.
        batch_norm_data: see `SWA`.
        batch_norm_steps: see `SWA`.
        batch_size: see `SWA`.

    Creates:
        A global variable for each trainable one, on its device, and ``<name>/num_updates``.

    Raises:
        ConfigError: the decay is outside of [0, 1), or the data for batch normalization cannot be used.

    Example:
        ema = EMA(0.999)
        callbacks = [ema, ema.evaluate(InferenceRunner(validation, ScalarStats("error", prefix="ema"))), ModelSaver()]
    """

    def __init__(
        self,
        decay: float = 0.9999,
        *,
        name: str = "ExponentialMovingAverage",
        batch_norm_data: Any = None,
        batch_norm_steps: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        if not 0 <= decay < 1:
            raise ConfigError(mismatch(self, "decay", decay, "a number in [0, 1)"))
        self._decay = decay
        self._request: tf.train.SessionRunArgs | None = None
        self._begin: tf.Operation
        self._has_begun = False
        self._is_updated = False
        super().__init__(name, batch_norm_statistics(self, batch_norm_data, batch_norm_steps, batch_size=batch_size))

    def _setup_graph(self) -> None:
        super()._setup_graph()
        self._begin = tf.group(
            *(average.assign(weight.read_value()).op for weight, average in self._pairs), name="begin"
        )
        train_op = self.trainer.train_op
        if train_op is not None:
            with tf.control_dependencies(tf.nest.flatten(train_op)):
                self._request = tf.train.SessionRunArgs(self._make_update())

    def _make_update(self) -> tf.Operation:
        with tf.name_scope("update"):
            count = tf.cast(self._num_updates.assign_add(1).read_value(), tf.float64)
            # The newest value has the weight 1 in a sum of weights of (1 - decay ** t) / (1 - decay).
            log_decay = math.log(self._decay) if self._decay else -math.inf
            return self._move_averages((1 - self._decay) / -tf.math.expm1(count * log_decay))

    def _has_averages(self) -> bool:
        self._begin_averaging()
        return True

    def _begin_averaging(self) -> None:
        """Initialize averages that were not restored with the weights."""
        if not self._has_begun:
            self._has_begun = True
            if self._count() == 0:
                self.trainer.sess.run(self._begin)

    def _before_train(self) -> None:
        self._begin_averaging()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self._request is None or ctx.original_args.fetches is not self.trainer.train_op:
            return None
        self._is_updated = True
        return self._request

    def _with_several_steps(self) -> WithSteps | None:
        return None if self._request is None else WithSteps(each=(self._request.fetches,))

    def _trigger_step(self) -> None:
        if not self._is_updated:
            self.trainer.sess.run(self._update)
        self._is_updated = False
