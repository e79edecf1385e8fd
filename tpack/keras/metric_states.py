"""Metrics that Keras keeps in variables: their update by a batch, eagerly or in a graph, and their results.

The object of Keras is eager. In a graph its variables are replaced by tensors, the state before a batch, and the update
returns the state after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow.compat.v1 as tf

from tpack.compat import eager_mode
from tpack.keras.layout import OUTPUT, Layout, Parts, zeros_of
from tpack.keras.losses_metrics import KerasMetric
from tpack.keras.own_methods import own_metrics

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
def replaced_state(state: MetricState, tensors: Sequence[tf.Tensor]) -> Iterator[Any]:
    """Replace the variables of metrics by tensors in a block, and give the scope of Keras with the changed ones."""
    with keras.StatelessScope(state_mapping=list(zip(state.variables, tensors, strict=True))) as scope:
        yield scope
