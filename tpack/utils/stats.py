"""Statistics of values fed one by one or in batches, from sums and counts, so exact for any batch sizes."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpack.errors import ConfigError


class StatCounter:
    """Count, sum, average, minimum and maximum of numbers; the last three are NaN before the first."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all numbers."""
        self.count = 0
        self.sum = 0.0
        self.min = self.max = math.nan

    def feed(self, v: float) -> None:
        """Take in one number."""
        self.min = v if self.count == 0 else min(self.min, v)
        self.max = v if self.count == 0 else max(self.max, v)
        self.count += 1
        self.sum += v

    @property
    def average(self) -> float:
        """The mean of the numbers."""
        return self.sum / self.count if self.count else math.nan


class RatioCounter:
    """The ratio of some among all, such as the errors among the samples; NaN, not 0, before the first."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all counts."""
        self.count = 0.0
        self.total = 0.0

    def feed(self, count: float, total: float = 1) -> None:
        """Add to the part and to the total."""
        self.count += count
        self.total += total

    @property
    def ratio(self) -> float:
        """The present ratio."""
        return self.count / self.total if self.total else math.nan


class Accuracy(RatioCounter):
    """A ratio counter of right answers."""

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.ratio


class BinaryStatistics:
    """Precision, recall and error rates of binary predictions; a rate with the denominator 0 is 0."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all counts."""
        self.nr_pos = self.nr_neg = 0
        self.nr_pred_pos = self.nr_pred_neg = 0
        self.corr_pos = self.corr_neg = 0

    def feed(self, pred: ArrayLike, label: ArrayLike) -> None:
        """Add a batch.

        Args:
            pred: predictions, 0 or 1, of any shape.
            label: labels, of the same shape.

        Raises:
            ConfigError: The shapes differ, or a value is neither 0 nor 1.
        """
        yes, true = _binary("pred", pred), _binary("label", label)
        if yes.shape != true.shape:
            raise ConfigError(f"pred of shape {yes.shape} and label of shape {true.shape}: expected the same shape")
        self.nr_pos += int(true.sum())
        self.nr_neg += int((~true).sum())
        self.nr_pred_pos += int(yes.sum())
        self.nr_pred_neg += int((~yes).sum())
        self.corr_pos += int((yes & true).sum())
        self.corr_neg += int((~yes & ~true).sum())

    @property
    def precision(self) -> float:
        """The ratio of positives among predicted positives."""
        return _rate(self.corr_pos, self.nr_pred_pos)

    @property
    def recall(self) -> float:
        """The ratio of predicted positives among positives."""
        return _rate(self.corr_pos, self.nr_pos)

    @property
    def false_positive(self) -> float:
        """The ratio of predicted positives among negatives."""
        return _rate(self.nr_neg - self.corr_neg, self.nr_neg)

    @property
    def false_negative(self) -> float:
        """The ratio of predicted negatives among positives."""
        return _rate(self.nr_pos - self.corr_pos, self.nr_pos)


class OnlineMoments:
    """Mean and variance of a stream of numbers, or of arrays of one shape, by Welford's update without cancellation."""

    def __init__(self) -> None:
        self.count = 0
        self._mean: Any = 0.0
        self._square: Any = 0.0

    def feed(self, x: float | np.ndarray) -> None:
        """Take in one number or array."""
        self.count += 1
        delta = x - self._mean
        self._mean = self._mean + delta / self.count
        self._square = self._square + delta * (x - self._mean)

    @property
    def mean(self) -> Any:
        """The mean; NaN before the first number."""
        return self._mean if self.count else math.nan

    @property
    def variance(self) -> Any:
        """The population variance (divided by ``count``); NaN before the first number."""
        return self._square / self.count if self.count else math.nan

    @property
    def std(self) -> Any:
        """The square root of the variance."""
        return np.sqrt(self.variance) if np.ndim(self.variance) else math.sqrt(self.variance)


def _binary(name: str, values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    others = array[~np.isin(array, (0, 1))]
    if others.size:
        raise ConfigError(f"{name} has values other than 0 and 1, such as {others.flat[0]!r}")
    return array.astype(bool)


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
