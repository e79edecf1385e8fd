"""Statistics of batches against numpy, and over towers against one tower that has all batches."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import to_format
from tpack.graph_builder.towers import build_towers
from tpack.models.batch_norm import (
    group_statistics,
    numbers_per_channel,
    statistics_over_towers,
    tower_statistics,
    unbiased,
)
from tpack.models.channels import channels_of
from tpack.tower.context import current_tower_context


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (6, 4)])
def test_a_tower_s_own(session8, rng, shape, data_format):
    x = rng.normal(size=shape, loc=2.0)
    inputs = tf.constant(to_format(x, data_format))
    channels = channels_of("Layer", inputs, data_format, 2, 4)
    mean, variance, estimate = session8.run(tower_statistics(inputs, channels))
    axes = tuple(range(x.ndim - 1))
    np.testing.assert_allclose(mean, x.mean(axes))
    np.testing.assert_allclose(variance, x.var(axes))
    np.testing.assert_allclose(estimate, x.var(axes, ddof=1))
    assert session8.run(numbers_per_channel(inputs, channels)) == x.size / 4


def test_those_of_groups_broadcast(session8, rng):
    x = rng.normal(size=(2, 3, 2, 2, 4))
    channels = channels_of("Layer", tf.zeros([6, 2, 2, 4]), "channels_last", 4)
    statistics = session8.run(group_statistics(tf.constant(x), channels))
    np.testing.assert_allclose(statistics.mean, x.mean((1, 2, 3), keepdims=True))
    np.testing.assert_allclose(statistics.unbiased, x.var((1, 2, 3), ddof=1, keepdims=True))


def test_one_number_has_no_variance(session8):
    assert session8.run(unbiased(tf.constant(0.0), tf.constant(1.0))) == 0.0


def over_towers(batches, weights, dtype):
    """Return each tower's statistics, and the gradients of a weighted sum of them by its batch."""

    def func():
        k = current_tower_context().index
        x = tf.constant(batches[k].astype(dtype))
        statistics = statistics_over_towers(x, channels_of("Layer", x, "channels_last", 2, 4))
        cost = tf.add_n([tf.reduce_sum(s * w) for s, w in zip(statistics, weights[k].astype(dtype), strict=True)])
        return statistics, tf.gradients(cost, [x])[0]

    return build_towers(func, [f"/device:CPU:{k}" for k in range(len(batches))], [True] * len(batches)).outputs


@pytest.mark.parametrize("sizes", [[4, 4], [1, 5, 2, 8]])
def test_over_towers_they_are_those_of_one_batch_also_where_sizes_differ(session8, rng, sizes):
    batches = [rng.normal(size=(size, 3, 2), loc=k).reshape(size, 1, 3, 2) for k, size in enumerate(sizes)]
    weights = rng.normal(size=(len(sizes), 3, 2))
    outputs = session8.run(over_towers(batches, weights, "float64"))
    everything = np.concatenate(batches)
    inputs = tf.constant(everything)
    channels = channels_of("Layer", inputs, "channels_last", 4)
    statistics = tower_statistics(inputs, channels)
    cost = tf.add_n([tf.reduce_sum(s * w) for s, w in zip(statistics, weights.sum(0), strict=True)])
    expected, grads = session8.run([statistics, tf.gradients(cost, [inputs])[0]])
    for (got, grad), wanted in zip(outputs, np.split(grads, np.cumsum(sizes)[:-1]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        np.testing.assert_array_equal(got, outputs[0][0])
        np.testing.assert_allclose(grad, wanted, rtol=1e-9, atol=1e-13)


def test_a_mean_much_larger_than_the_deviation_costs_no_digits(session8, rng):
    batches = (rng.normal(size=(4, 32, 1)) + 1e4).astype("float32")
    outputs = session8.run(over_towers(batches, np.ones([4, 3, 1]), "float32"))
    expected = batches.astype("float64").reshape(-1).var()
    np.testing.assert_allclose(outputs[0][0].variance, [expected], rtol=1e-3)
