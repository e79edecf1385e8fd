"""What is computed over a pass through a validation set: means, error rates, precision and recall.

An inferencer says which tensors it wants of each batch, is given their values batch by batch, and makes statistics of
them in the end. It does not know how many towers there are: it is called once for each batch, in the order of the
data, so that the same data give the same statistics on one device and on eight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import SupportsFloat

import numpy as np

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError
from tpack.tower.names import op_and_tensor_name
from tpack.utils.stats import BinaryStatistics, RatioCounter


class Inferencer(Callback):
    """Accumulate over batches.

    A subclass overrides these four methods, which an inference runner calls::

        inferencer._before_inference()
        for batch in data:
            inferencer._on_fetches(values of the tensors that inferencer._get_fetches() names)
        statistics = inferencer._after_inference()         # {name: number}, goes to the monitors

    It is a callback as well: its `_setup_graph`, `_before_train` and `_after_train` are called with those of the
    runner.
    """

    def get_fetches(self) -> list[str]:
        """Return the names of the tensors it wants, with the output index."""
        return [op_and_tensor_name(name)[1] for name in self._get_fetches()]

    def on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Receive the values for one batch, in the order of `get_fetches`."""
        self._on_fetches(results)

    def before_inference(self) -> None:
        """Begin a pass over the data."""
        self._before_inference()

    def after_inference(self) -> None:
        """Finish the pass and give the statistics to the monitors.

        Raises:
            CallbackError: `_after_inference` returned something else than numbers by name.
        """
        statistics = self._after_inference()
        if statistics is None:
            return
        if not isinstance(statistics, Mapping):
            raise CallbackError(f"{self}._after_inference returns a dict of numbers or None, got {statistics!r}")
        for name, value in statistics.items():
            self.trainer.monitors.put_scalar(name, value)

    def _before_inference(self) -> None:
        """Forget the last pass."""

    def _get_fetches(self) -> Sequence[str]:
        """Return the names of tensors, as the tower function knows them."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_fetches")

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        """Take in the values of one batch."""
        raise NotImplementedError(f"{type(self).__name__} must override _on_fetches")

    def _after_inference(self) -> Mapping[str, SupportsFloat] | None:
        """Return the statistics of the pass."""
        return None


class BinaryClassificationStats(Inferencer):
    """Compute precision and recall of binary predictions, from counts over the whole set.

    Args:
        pred_tensor_name: predictions, 0 or 1 for each sample.
        label_tensor_name: what they should be, of the same shape.
        prefix: the statistics are called ``<prefix>_precision`` and ``<prefix>_recall``.
    """

    def __init__(self, pred_tensor_name: str, label_tensor_name: str, prefix: str = "val") -> None:
        self._names = [pred_tensor_name, label_tensor_name]
        self._prefix = prefix
        self._before_inference()

    def _before_inference(self) -> None:
        self._counts = BinaryStatistics()

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        predictions, labels = results
        self._counts.feed(predictions, labels)

    def _after_inference(self) -> dict[str, float]:
        return {f"{self._prefix}_precision": self._counts.precision, f"{self._prefix}_recall": self._counts.recall}


class ClassificationError(Inferencer):
    """Count how many predictions were wrong, of how many.

    The rate is exact: wrong ones and all are counted, so that batches of different sizes weigh as they should.

    Args:
        wrong_tensor_name: a vector with one entry for each sample: 1 (or true) where the prediction is wrong, else 0.
        summary_name: name of the statistic.
    """

    def __init__(self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error") -> None:
        self._wrong_tensor_name = wrong_tensor_name
        self._summary_name = summary_name
        self._before_inference()

    def _before_inference(self) -> None:
        self._rate = RatioCounter()

    def _get_fetches(self) -> Sequence[str]:
        return [self._wrong_tensor_name]

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        wrong = np.asarray(results[0])
        if wrong.ndim != 1:
            raise CallbackError(
                f"ClassificationError wants '{self._wrong_tensor_name}' to be a vector with one entry for each sample, "
                f"got shape {wrong.shape}"
            )
        self._rate.feed(float(np.sum(wrong, dtype=np.float64)), wrong.size)

    def _after_inference(self) -> dict[str, float]:
        return {self._summary_name: self._rate.ratio}


class ScalarStats(Inferencer):
    """Average tensors over all batches.

    The batches' sums are added without rounding, so that the result does not depend on the order in which towers
    finish. A tensor with elements is averaged over its elements, which is exact for batches of different sizes. A
    scalar counts once for each batch: when it is itself the mean of a batch, a smaller last batch weighs as much as the
    others.

    Args:
        names: names of tensors, or one name.
        prefix: the statistics are called ``<prefix>_<name>``; an empty one is left out.
    """

    def __init__(self, names: str | Sequence[str], prefix: str = "validation") -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._statistics = [self._statistic_name(name, prefix) for name in self._names]
        self._before_inference()

    @staticmethod
    def _statistic_name(name: str, prefix: str) -> str:
        op_name, tensor_name = op_and_tensor_name(name)
        # The output index matters only where it is not the first.
        short = op_name if tensor_name == f"{op_name}:0" else tensor_name
        return f"{prefix}_{short}" if prefix else short

    def _before_inference(self) -> None:
        self._sums: list[list[float]] = [[] for _ in self._names]
        self._counts = [0] * len(self._names)

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _on_fetches(self, results: Sequence[np.ndarray]) -> None:
        for position, value in enumerate(results):
            self._sums[position].append(float(np.sum(value, dtype=np.float64)))
            self._counts[position] += int(np.size(value))

    def _after_inference(self) -> dict[str, float]:
        means = [
            _add(sums) / count if count else math.nan for sums, count in zip(self._sums, self._counts, strict=True)
        ]
        return dict(zip(self._statistics, means, strict=True))


def _add(numbers: Sequence[float]) -> float:
    # Only finite numbers can be added without rounding.
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)
