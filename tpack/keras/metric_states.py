"""Metrics that Keras keeps in variables: their update by a batch, eagerly or in a graph, and their results.

The object of Keras is eager. In a graph its variables are replaced by tensors, the state before a batch, and the update
returns the state after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, SupportsFloat

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps, training_towers
from tpack.callbacks.inference.inferencers import Inferencer
from tpack.compat.keras import elementwise_equality
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.keras.layout import OUTPUT, Layout, Parts, zeros_of
from tpack.keras.losses_metrics import KerasMetric, own_metrics
from tpack.tower.collections import EPOCH_MEANS_KEY
from tpack.utils import logger

OWN_METRIC = "own_metric"


class MetricState(ABC):
    """Something that is updated by the targets and outputs of each batch, and has results."""

    @property
    @abstractmethod
    def tensor_names(self) -> list[str]:
        """The names of the tensors of a tower that update it; after a tower was built."""

    @abstractmethod
    def prepare(self, values: Sequence[Any]) -> None:
        """Make the variables, for tensors or arrays of the shapes of these values."""

    @property
    @abstractmethod
    def variables(self) -> list[Any]:
        """The variables of Keras; after `prepare`."""

    @abstractmethod
    def update(self, values: Sequence[Any]) -> dict[str, Any]:
        """Update the variables by a batch, and return the results by name."""

    @abstractmethod
    def reset(self) -> None:
        """Set the variables to their first values."""


class OutputState(MetricState):
    """A metric of one output.

    Args:
        metric: the metric.
        name: the name of the result.
        pair: the names of the targets and of the output.
        weight: the name of the weights of the examples; None for none.
    """

    def __init__(self, metric: KerasMetric, name: str, pair: tuple[str, str], weight: str | None = None) -> None:
        self._metric, self._name = metric, name
        self._names = [*pair, *([] if weight is None else [weight])]
        self._keeper: keras.metrics.Metric = None

    @property
    def tensor_names(self) -> list[str]:
        """The names of the targets, the output and the weights."""
        return self._names

    def prepare(self, values: Sequence[Any]) -> None:
        """Make the metric of Keras, and the variables that some make by their first update."""
        self._keeper = self._metric.keeper(*values[:2])
        if not self._keeper.variables:
            with eager_mode():
                self._keeper.update_state(*zeros_of(values[:2]))
                self._keeper.reset_state()

    @property
    def variables(self) -> list[Any]:
        """The variables of the metric."""
        return list(self._keeper.variables)

    def update(self, values: Sequence[Any]) -> dict[str, Any]:
        """Update the metric; a result that is a dict or a vector gives several."""
        target, output, *weight = values
        self._keeper.update_state(target, output, **({"sample_weight": weight[0]} if weight else {}))
        return _scalars(self._name, self._keeper.result())

    def reset(self) -> None:
        """Reset the metric."""
        self._keeper.reset_state()


class OwnState(MetricState):
    """The metrics of a model with its own ``compute_metrics``, or with metrics that its ``compute_loss`` updates.

    Args:
        layout: the inputs of the model.
        make_model: returns an eager, compiled model.
    """

    def __init__(self, layout: Layout, make_model: Callable[[], Any]) -> None:
        self._layout, self._make_model = layout, make_model
        self._model: Any = None
        self._outputs: list[str] = []
        self._y_pred: Any = None
        # The number of a metric and of its arguments, for each update of a batch.
        self.updates: list[tuple[int, int]] = []

    def note(self, y_pred: Any, outputs: Sequence[str]) -> None:
        """Record the outputs of the model in a tower, and the names of the tensors that tell them."""
        self._outputs, self._y_pred = list(outputs), y_pred

    @property
    def tensor_names(self) -> list[str]:
        """The names of all inputs, outputs and arguments of updates."""
        outputs = [f"{OUTPUT}_{k}" for k in range(len(self._outputs))]
        counts = enumerate(self.updates)
        arguments = [f"{OWN_METRIC}_{k}_{j}" for k, (_, count) in counts for j in range(count)]
        return [*(spec.name for spec in self._layout.specs), *outputs, *arguments]

    def prepare(self, values: Sequence[Any]) -> None:
        """Make the model, and all variables of its metrics by a first update."""
        if self._model is None:
            self._model = self._make_model()
        with eager_mode():
            self.update(zeros_of(values))
            self.reset()

    @property
    def variables(self) -> list[Any]:
        """The variables of the model's metrics."""
        return list(self._model.metrics_variables)

    def update(self, values: Sequence[Any]) -> dict[str, Any]:
        """Update the model's own metrics as its ``compute_loss`` did, then call ``compute_metrics``."""
        parts, y_pred, arguments = self._unpack(values)
        known = own_metrics(self._model)
        for number, count in self.updates:
            own, arguments = arguments[:count], arguments[count:]
            known[number].update_state(*own)
        results = self._model.compute_metrics(parts.x, parts.y, y_pred, sample_weight=parts.weight)
        own_names = {metric.name for metric in known}
        shown = [name for name in results if name in own_names or not self._is_of_cost(name)]
        return {each: value for name in shown for each, value in _scalars(name, results[name]).items()}

    def reset(self) -> None:
        """Reset the model's metrics."""
        self._model.reset_metrics()

    def _unpack(self, values: Sequence[Any]) -> tuple[Parts, Any, list[Any]]:
        num_inputs, num_outputs = len(self._layout.specs), len(self._outputs)
        inputs, left = values[:num_inputs], values[num_inputs:]
        outputs = left[:num_outputs]
        nest = self._y_pred
        if isinstance(nest, Mapping):
            y_pred: Any = dict(zip(self._outputs, outputs, strict=True))
        else:
            y_pred = keras.tree.pack_sequence_as(nest, list(outputs))
        return self._layout.unpack(inputs), y_pred, list(left[num_outputs:])

    def _is_of_cost(self, name: str) -> bool:
        # Keras updates these in its own steps.
        compiled = getattr(self._model, "_compile_loss", None)
        return name == "loss" or name in [metric.name for metric in getattr(compiled, "metrics", ())]


def _scalars(name: str, result: Any) -> dict[str, Any]:
    """Return the scalars of a result by name: of a dict by its keys, of a vector by their numbers."""
    if isinstance(result, Mapping):
        return {f"{name}_{key}": value for key, value in result.items()}
    if isinstance(result, float):
        # Keras 3.12 makes Python's numbers of results where it can.
        return {name: np.float64(result)}
    size = 1 if not len(result.shape) else int(result.shape[0])
    if size == 1:
        return {name: keras.ops.reshape(result, [])}
    return {f"{name}_{k}": result[k] for k in range(size)}


@contextmanager
def capture_updates(model: Any, state: OwnState | None) -> Iterator[None]:
    """Name the tensors by which a model in a tower updates its own metrics in a block, in place of updating them."""
    updates: list[tuple[int, int]] = []

    def capture(number: int) -> Callable[..., None]:
        def update_state(*args: Any, **kwargs: Any) -> None:
            values = [value for value in (*args, *kwargs.values()) if value is not None]
            for j, value in enumerate(values):
                tf.identity(tf.convert_to_tensor(value), f"{OWN_METRIC}_{len(updates)}_{j}")
            updates.append((number, len(values)))

        return update_state

    metrics = own_metrics(model)
    for number, metric in enumerate(metrics):
        metric.update_state = capture(number)
    try:
        yield
    finally:
        for metric in metrics:
            del metric.update_state
    if state is not None:
        state.updates = updates


@contextmanager
def refused_updates(model: Any) -> Iterator[None]:
    """Refuse updates of a model's own metrics in its call, in a block; no statistic would show them."""

    def update_state(*args: Any, **kwargs: Any) -> None:
        error = ConfigError(
            f"KerasModel got a {type(model).__name__} that updates a metric in its call: expected this in its "
            "compute_loss or compute_metrics, or metrics of compile"
        )
        # Keras adds lines about the call to errors without this mark.
        vars(error)["_keras_call_info_injected"] = True
        raise error

    metrics = own_metrics(model)
    for metric in metrics:
        metric.update_state = update_state
    try:
        yield
    finally:
        for metric in metrics:
            # Towers that are built in turns share the metrics of a model that cannot be cloned.
            vars(metric).pop("update_state", None)


@contextmanager
def replaced_state(state: MetricState, tensors: Sequence[tf.Tensor]) -> Iterator[Any]:
    """Replace the variables of metrics by tensors in a block, and give the scope of Keras with the changed ones."""
    with keras.StatelessScope(state_mapping=list(zip(state.variables, tensors, strict=True))) as scope:
        yield scope


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


class WeightedStats(Inferencer):
    """Average scalars, which are means over a batch, over all examples, so that a smaller last batch weighs less.

    Args:
        names: names of the scalars.
        shape_name: the name of a tensor whose first number is the size of the batch.
        prefix: precedes the names of the statistics.
        by_batch: the names of those whose mean is over the batches.
    """

    def __init__(self, names: Sequence[str], shape_name: str, prefix: str, by_batch: Sequence[str] = ()) -> None:
        self._names, self._shape_name, self._prefix = list(names), shape_name, prefix
        self._is_by_batch = np.array([name in by_batch for name in self._names], bool)
        self._before_inference()

    def _before_inference(self) -> None:
        self._sums = np.zeros(len(self._names), np.float64)
        self._counts = np.zeros(len(self._names), np.float64)

    def _get_fetches(self) -> Sequence[str]:
        return [*self._names, self._shape_name]

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        *values, shape = results
        counts = np.where(self._is_by_batch, 1.0, float(shape[0]))
        self._sums += np.array(values, np.float64) * counts
        self._counts += counts

    def _state(self) -> list[Any]:
        return [self._sums, self._counts]

    def _merge(self, states: Sequence[Sequence[Any]]) -> None:
        self._sums, self._counts = (np.sum(column, axis=0) for column in zip(*states, strict=True))

    def _after_inference(self) -> Mapping[str, SupportsFloat]:
        means = self._sums / np.maximum(1.0, self._counts)
        return {f"{self._prefix}_{name}": mean for name, mean in zip(self._names, means, strict=True)}


class StateStats(Inferencer):
    """Update metrics of Keras with all targets and outputs, eagerly.

    Args:
        state: the metrics.
        prefix: precedes the names of the statistics.
    """

    def __init__(self, state: MetricState, prefix: str) -> None:
        self._metric, self._prefix = state, prefix
        self._is_prepared = False
        self._results: dict[str, Any] = {}

    def _before_inference(self) -> None:
        self._results = {}
        if self._is_prepared:
            with eager_mode():
                self._metric.reset()

    def _get_fetches(self) -> Sequence[str]:
        return self._metric.tensor_names

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        with eager_mode():
            if not self._is_prepared:
                self._metric.prepare(results)
                self._metric.reset()
                self._is_prepared = True
            self._results = self._metric.update(results)

    def _after_inference(self) -> Mapping[str, SupportsFloat]:
        return {f"{self._prefix}_{name}": float(value) for name, value in self._results.items()}
