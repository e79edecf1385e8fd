"""Inferencers of Keras models: means over all examples, and metrics that Keras keeps in variables."""

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import keras
import numpy as np

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.compat import eager_mode


class WeightedStats(Inferencer):
    """Average scalars, which are means over a batch, over all examples, so that a smaller last batch weighs less.

    Args:
        names: names of the scalars.
        shape_name: the name of a tensor whose first number is the size of the batch.
        prefix: precedes the names of the statistics.
    """

    def __init__(self, names: Sequence[str], shape_name: str, prefix: str) -> None:
        self._names, self._shape_name, self._prefix = list(names), shape_name, prefix
        self._before_inference()

    def _before_inference(self) -> None:
        self._sums = np.zeros(len(self._names), np.float64)
        self._count = 0

    def _get_fetches(self) -> Sequence[str]:
        return [*self._names, self._shape_name]

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        *values, shape = results
        self._sums += np.array(values, np.float64) * shape[0]
        self._count += int(shape[0])

    def _state(self) -> list[Any]:
        return [self._sums, self._count]

    def _merge(self, states: Sequence[Sequence[Any]]) -> None:
        sums, counts = zip(*states, strict=True)
        self._sums, self._count = np.sum(sums, axis=0), sum(counts)

    def _after_inference(self) -> Mapping[str, SupportsFloat]:
        means = self._sums / max(1, self._count)
        return {f"{self._prefix}_{name}": mean for name, mean in zip(self._names, means, strict=True)}


class KeeperStats(Inferencer):
    """Update a metric of Keras with all targets and outputs, eagerly.

    Args:
        metric: the metric.
        name: the name of the statistic.
        pair: the names of the targets and of the outputs.
    """

    def __init__(self, metric: keras.metrics.Metric, name: str, pair: tuple[str, str]) -> None:
        self._metric, self._name, self._pair = metric, name, pair

    def _before_inference(self) -> None:
        with eager_mode():
            self._metric.reset_state()

    def _get_fetches(self) -> Sequence[str]:
        return self._pair

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        with eager_mode():
            self._metric.update_state(*results)

    def _after_inference(self) -> Mapping[str, SupportsFloat]:
        with eager_mode():
            result = self._metric.result()
        values = result if isinstance(result, Mapping) else {"": result}
        return {f"{self._name}{'_' if key else ''}{key}": float(value) for key, value in values.items()}
