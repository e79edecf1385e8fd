"""The share of wrong predictions over a validation set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.errors import CallbackError
from tpack.utils.stats import RatioCounter


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

    def _on_fetches(self, results: Sequence[Any]) -> None:
        wrong = np.asarray(results[0])
        if wrong.ndim != 1:
            raise CallbackError(
                f"ClassificationError wants '{self._wrong_tensor_name}' to be a vector with one entry for each sample, "
                f"got shape {wrong.shape}"
            )
        self._rate.feed(float(np.sum(wrong, dtype=np.float64)), wrong.size)

    def _after_inference(self) -> dict[str, float]:
        return {self._summary_name: self._rate.ratio}
