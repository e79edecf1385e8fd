"""Precision and recall over a validation set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.utils.stats import BinaryStatistics


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

    def _on_fetches(self, results: Sequence[Any]) -> None:
        predictions, labels = results
        self._counts.feed(predictions, labels)

    def _after_inference(self) -> dict[str, float]:
        return {f"{self._prefix}_precision": self._counts.precision, f"{self._prefix}_recall": self._counts.recall}
