"""The mean of tensors over a validation set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.tower.names import op_and_tensor_name


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

    def _on_fetches(self, results: Sequence[Any]) -> None:
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
