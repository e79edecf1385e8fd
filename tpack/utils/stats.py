"""Counters that are fed one value or one batch after another and know a statistic of all of them.

They keep sums and counts, never the values, so that the result over many batches is exact whatever their sizes.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from tpack.errors import ConfigError


class StatCounter:
    """Count, sum, average, least and greatest of the numbers it is fed.

    Before the first number the average, ``min`` and ``max`` are NaN.
    """

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
    """The share of some among all, such as the errors among the samples.

    The ratio of nothing is NaN: an evaluation that saw no sample must not look like one without errors.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from nothing."""
        self.count = 0.0
        self.total = 0.0

    def feed(self, count: float, total: float = 1) -> None:
        """Take in ``count`` more among ``total`` more."""
        self.count += count
        self.total += total

    @property
    def ratio(self) -> float:
        """The share so far."""
        return self.count / self.total if self.total else math.nan


class Accuracy(RatioCounter):
    """A ratio counter fed with the number of right answers."""

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.ratio


class BinaryStatistics:
    """Precision, recall and error rates of yes-or-no predictions.

    A rate whose denominator is 0 (the precision when nothing was predicted positive) is 0.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from nothing."""
        self.nr_pos = self.nr_neg = 0
        self.nr_pred_pos = self.nr_pred_neg = 0
        self.corr_pos = self.corr_neg = 0

    def feed(self, pred: ArrayLike, label: ArrayLike) -> None:
        """Take in a batch.

        Args:
            pred: predictions, 0 or 1, of any shape.
            label: what is true, of the same shape.

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
        """Which share of what was predicted positive is positive."""
        return _rate(self.corr_pos, self.nr_pred_pos)

    @property
    def recall(self) -> float:
        """Which share of what is positive was predicted so."""
        return _rate(self.corr_pos, self.nr_pos)

    @property
    def false_positive(self) -> float:
        """Which share of what is negative was predicted positive."""
        return _rate(self.nr_neg - self.corr_neg, self.nr_neg)

    @property
    def false_negative(self) -> float:
        """Which share of what is positive was predicted negative."""
        return _rate(self.nr_pos - self.corr_pos, self.nr_pos)


class OnlineMoments:
    """Mean and variance of a stream of numbers, by Welford's update, which does not lose digits to cancellation."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = 0.0
        self._square = 0.0

    def feed(self, x: float) -> None:
        """Take in one number."""
        self.count += 1
        delta = x - self._mean
        self._mean += delta / self.count
        self._square += delta * (x - self._mean)

    @property
    def mean(self) -> float:
        """The mean; NaN before the first number."""
        return self._mean if self.count else math.nan

    @property
    def variance(self) -> float:
        """The variance of the numbers as a whole population (divided by ``count``); NaN before the first."""
        return self._square / self.count if self.count else math.nan

    @property
    def std(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.variance)


def _binary(name: str, values: ArrayLike) -> np.ndarray:
    """Return an array of truth values, and refuse what is neither 0 nor 1."""
    array = np.asarray(values)
    if not np.isin(array, (0, 1)).all():
        raise ConfigError(f"{name} has values other than 0 and 1, such as {array[~np.isin(array, (0, 1))].flat[0]!r}")
    return array.astype(bool)


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
