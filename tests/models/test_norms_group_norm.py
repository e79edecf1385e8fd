"""Group normalisation against numpy, in both formats, and its two ends."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, assert_layer
from tests.helpers.norm_oracles import affine, normalized
from tpack.errors import ConfigError
from tpack.models.norms import GroupNorm, InstanceNorm, LayerNorm


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("shape", "options"), [((3, 2, 5, 6), {}), ((3, 6), {}), ((2, 2, 3, 6), {"center": False})])
def test_values_and_gradients(shape, options, data_format, rng):
    def build(x, data_format):
        return GroupNorm("gn", x, 3, data_format=data_format, **options)

    def oracle(x, variables):
        grouped = x.reshape(*x.shape[:-1], 3, 2)
        axes = (*range(1, x.ndim - 1), x.ndim)
        return affine(normalized(grouped, axes).reshape(x.shape), variables, "gn")

    assert_layer(build, rng.normal(size=shape, loc=2.0, scale=3.0), oracle, data_format)


@pytest.mark.parametrize("data_format", FORMATS)
def test_one_group_is_layer_norm_and_one_for_each_channel_instance_norm(session8, data_format, rng):
    x = tf.constant(rng.normal(size=(2, 4, 5, 4)))
    pairs = [
        (GroupNorm("a", x, 1, data_format=data_format), LayerNorm("b", x, data_format=data_format)),
        (GroupNorm("c", x, 4, data_format=data_format), InstanceNorm("d", x, data_format=data_format)),
    ]
    session8.run(tf.global_variables_initializer())
    for got, expected in session8.run(pairs):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_sizes_that_are_known_when_it_runs(session8, rng):
    x = tf.placeholder(tf.float32, [None, None, None, 4])
    y = GroupNorm("gn", x, 2)
    assert y.shape.as_list() == [None, None, None, 4]
    assert y.name == "gn/output:0"
    session8.run(tf.global_variables_initializer())
    value = rng.normal(size=(2, 3, 5, 4))
    expected = normalized(value.reshape(2, 3, 5, 2, 2), (1, 2, 4)).reshape(value.shape)
    np.testing.assert_allclose(session8.run(y, {x: value}), expected, atol=1e-5)


def test_narrow_inputs_are_normalised_in_float32(graph):
    y = GroupNorm("gn", tf.zeros([2, 32], tf.bfloat16))
    assert y.dtype == tf.bfloat16
    assert {v.dtype.base_dtype for v in y.variables.all()} == {tf.float32}


@pytest.mark.parametrize("group", [4, 0])
def test_groups_that_do_not_divide_the_channels_are_an_error(graph, group):
    with pytest.raises(ConfigError, match=f"GroupNorm .gn. got group={group}: expected a divisor of 6 channels"):
        GroupNorm("gn", tf.zeros([2, 6]), group)
