"""`EpochStatistics`: the cost and the metrics of training over all examples of an epoch, as Keras has them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps, training_towers
from tpack.compat import eager_mode, elementwise_equality
from tpack.keras.metric_states import MetricState, replaced_state
from tpack.tower.collections import EPOCH_MEANS_KEY
from tpack.utils import logger

_NOT_IN_GRAPHS = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""The errors of metrics that only run eagerly."""


class EpochStatistics(Callback):
    """Reports means over the examples of an epoch in place of moving averages, and metrics with a state.

    Sums and states are local variables, updated with each step and reset before an epoch; an epoch that is resumed in
    the middle counts from there on.

    Args:
        means: names of the trainer's statistics, each a mean over the examples of a step.
        by_step: the names of those whose mean is over the steps.
        rows: the name of a tensor of each tower whose first number is that of its examples; and of one that is 0 where
            these do not count, or None.
        states: the metrics with a state.
    """

    adds_variables = True

    def __init__(
        self,
        means: Sequence[str],
        rows: tuple[str, str | None],
        states: Sequence[MetricState],
        by_step: Sequence[str] = (),
    ) -> None:
        self._means, self._by_step = list(means), set(by_step)
        self._rows, self._share = rows
        self._states = list(states)

    def _setup_graph(self) -> None:
        towers = list(training_towers(self.trainer))
        self._names = [name for name in self._means if name in self.trainer.statistics]
        tf.get_default_graph().get_collection_ref(EPOCH_MEANS_KEY).extend(self._names)
        self._resets: list[tf.Operation] = []
        self._fetches: dict[str, tf.Tensor] = {}
        with tf.name_scope(None, "EpochStatistics"), tf.device("/device:CPU:0"):
            updates = [self._sums(towers)]
            for state in self._states:
                updates += self._with_state(state, towers)
            self._update = tf.group(*updates, name="update")
            self._reset = tf.group(*self._resets, name="reset")

    def _sums(self, towers: Sequence[Any]) -> tf.Operation:
        rows = [tf.cast(tower.get_tensor(self._rows)[0], tf.float64) for tower in towers]
        if self._share is not None:
            shares = [tower.get_tensor(self._share)[0] for tower in towers]
            rows = [tf.where(share > 0, count, 0.0) for share, count in zip(shares, rows, strict=True)]
        total = tf.add_n(rows)
        one = tf.ones([], tf.float64)
        counts = [one if name in self._by_step else total for name in self._names]
        values = [tf.cast(self.trainer.statistics[name], tf.float64) for name in self._names]
        sums = self._variable("sums", np.zeros([2, len(values)]), tf.float64)
        means = tf.unstack(tf.divide(*tf.unstack(sums.read_value())), num=len(values))
        self._fetches.update(zip(self._names, means, strict=True))
        added = [[value * count for value, count in zip(values, counts, strict=True)], counts]
        return sums.assign_add(tf.stack(added), read_value=False)

    def _with_state(self, state: MetricState, towers: Sequence[Any]) -> list[tf.Operation]:
        """Return the operations that update a metric with the examples of all towers, one after the other."""
        try:
            state.prepare(towers[0].get_tensors(state.tensor_names))
            with eager_mode():
                state.reset()
                first = [np.asarray(variable) for variable in state.variables]
            kept = [self._variable("state", value, tf.as_dtype(value.dtype)) for value in first]
            now = [variable.read_value() for variable in kept]
            results: dict[str, tf.Tensor] = {}
            for tower in towers:
                now, results = self._updated(state, tower, now, results)
        except _NOT_IN_GRAPHS as error:
            logger.warning(f"{type(state).__name__} only runs eagerly, and is a statistic of validation alone: {error}")
            return []
        updates = [variable.assign(value, read_value=False) for variable, value in zip(kept, now, strict=True)]
        for name, result in results.items():
            variable = self._variable("result", np.zeros([]), result.dtype)
            updates.append(variable.assign(tf.reshape(result, []), read_value=False))
            self._fetches[name] = variable.read_value()
        return updates

    def _updated(
        self, state: MetricState, tower: Any, before: list[tf.Tensor], results: dict[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Return the state and the results after the batch of one tower."""
        with replaced_state(state, before) as scope, elementwise_equality():
            found = {k: tf.convert_to_tensor(v) for k, v in state.update(tower.get_tensors(state.tensor_names)).items()}
            now = [tf.convert_to_tensor(scope.get_current_value(variable)) for variable in state.variables]
        if self._share is None:
            return now, found
        counts = tower.get_tensor(self._share)[0] > 0
        pairs = zip(now, before, strict=True)
        known = {name: tf.where(counts, value, results.get(name, value)) for name, value in found.items()}
        return [tf.where(counts, new, old) for new, old in pairs], known

    def _variable(self, name: str, value: Any, dtype: tf.DType) -> tf.Variable:
        collections = [tf.GraphKeys.LOCAL_VARIABLES]
        variable = tf.Variable(
            value, trainable=False, collections=collections, name=name, dtype=dtype, use_resource=True
        )
        self._resets.append(variable.initializer)
        return variable

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self._reset)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Operation:
        return self._update

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(each=(self._update,))

    def _trigger_epoch(self) -> None:
        for name, value in self.trainer.sess.run(self._fetches).items():
            self.trainer.monitors.put_scalar(name, float(value))
