"""Inferencers of Keras models: means over all examples, and metrics that Keras keeps in variables."""

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.compat import eager_mode
from tpack.keras.metric_states import MetricState


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
