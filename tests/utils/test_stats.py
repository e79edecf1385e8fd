"""Counters against numpy over everything they were fed."""

import math

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.utils.stats import Accuracy, BinaryStatistics, OnlineMoments, RatioCounter, StatCounter


def test_stat_counter_agrees_with_numpy(rng):
    values = rng.normal(size=100) - 5
    counter = StatCounter()
    for value in values:
        counter.feed(value)
    found = (counter.count, counter.sum, counter.average, counter.min, counter.max)
    np.testing.assert_allclose(found, (100, values.sum(), values.mean(), values.min(), values.max()))


def test_stat_counter_of_nothing_is_nan_and_reset_empties_it():
    counter = StatCounter()
    counter.feed(3)
    counter.reset()
    assert (counter.count, counter.sum) == (0, 0)
    assert all(map(math.isnan, (counter.average, counter.min, counter.max)))


def test_ratio_over_ragged_batches_is_exact(rng):
    wrong = rng.random(103) < 0.3
    counter = RatioCounter()
    for batch in np.split(wrong, range(10, 103, 10)):
        counter.feed(batch.sum(), len(batch))
    assert counter.ratio == wrong.mean()


def test_ratio_of_nothing_is_nan():
    counter = RatioCounter()
    counter.feed(1)
    assert counter.ratio == 1
    counter.reset()
    assert math.isnan(counter.ratio)


def test_accuracy_is_a_ratio():
    accuracy = Accuracy()
    accuracy.feed(3, 4)
    accuracy.feed(1, 4)
    assert accuracy.accuracy == accuracy.ratio == 0.5


def test_binary_statistics_over_batches_agree_with_numpy(rng):
    pred, label = rng.integers(0, 2, 103), rng.random(103) < 0.3
    stats = BinaryStatistics()
    for part in np.split(np.arange(103), range(10, 103, 10)):
        stats.feed(pred[part], label[part])
    assert stats.precision == label[pred == 1].mean()
    assert stats.recall == pred[label].mean()
    assert stats.false_positive == pred[~label].mean()
    assert stats.false_negative == (1 - pred[label]).mean()
    assert (stats.nr_pred_pos, stats.nr_pred_neg) == (pred.sum(), (1 - pred).sum())


def test_binary_statistics_of_nothing_are_zero():
    stats = BinaryStatistics()
    stats.feed([1, 0], [1, 1])
    stats.reset()
    assert (stats.precision, stats.recall, stats.false_positive, stats.false_negative) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("pred", "label", "message"),
    [
        ([1, 0], [1, 0, 1], r"pred of shape \(2,\) and label of shape \(3,\)"),
        ([1, 2], [1, 0], "pred has values other than 0 and 1, such as .*2"),
        ([1, 0], [0.5, 0], "label has values other than 0 and 1, such as .*0.5"),
    ],
)
def test_binary_statistics_refuse_what_is_not_binary(pred, label, message):
    stats = BinaryStatistics()
    with pytest.raises(ConfigError, match=message):
        stats.feed(pred, label)
    assert stats.nr_pos == 0


def test_online_moments_agree_with_numpy_far_from_zero(rng):
    values = 1e9 + rng.normal(size=1000)
    moments = OnlineMoments()
    for value in values:
        moments.feed(value)
    np.testing.assert_allclose(
        (moments.mean, moments.variance, moments.std), (values.mean(), values.var(), values.std())
    )


def test_online_moments_of_arrays_are_those_of_each_element(rng):
    values = rng.normal(size=(50, 3))
    moments = OnlineMoments()
    for value in values:
        moments.feed(value)
    np.testing.assert_allclose([moments.mean, moments.std], [values.mean(axis=0), values.std(axis=0)])


def test_online_moments_of_nothing_are_nan():
    moments = OnlineMoments()
    assert moments.count == 0
    assert all(map(math.isnan, (moments.mean, moments.variance, moments.std)))
