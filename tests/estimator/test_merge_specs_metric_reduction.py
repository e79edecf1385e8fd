"""Metric variables of towers add up in the first one, and adding twice is adding once."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.merge_specs import reduce_metric_variables


def variables(values, dtype=tf.float32):
    return [tf.Variable(value, dtype=dtype, use_resource=True, trainable=False) for value in values]


def test_adds_to_the_first_tower_once(session8):
    towers = [variables([1.0, [2.0, 3.0]]), variables([10.0, [20.0, 30.0]]), variables([100.0, [200.0, 300.0]])]
    reduce = reduce_metric_variables(towers)
    session8.run(tf.global_variables_initializer())
    for _ in range(3):
        session8.run(reduce)
        values = session8.run(towers)
        assert values[0][0] == 111
        np.testing.assert_array_equal(values[0][1], [222, 333])
        for tower in values[1:]:
            assert tower[0] == 0
            np.testing.assert_array_equal(tower[1], [0, 0])


def test_adds_what_comes_between(session8):
    towers = [variables([1.0]), variables([2.0])]
    with tf.control_dependencies([towers[1][0].assign_add(5.0).op, towers[0][0].assign_add(1.0).op]):
        reduce = reduce_metric_variables(towers)
    session8.run(tf.global_variables_initializer())
    assert [session8.run([reduce, towers[0][0].value()])[0] for _ in range(4)] == [None] * 4
    assert session8.run(towers) == [[1 + 2 + 4 * 6], [0]]


def test_one_tower_has_nothing_to_reduce(session8):
    (tower,) = towers = [variables([4.0])]
    reduce = reduce_metric_variables(towers)
    session8.run(tf.global_variables_initializer())
    session8.run(reduce)
    assert reduce.type == "NoOp"
    assert session8.run(tower) == [4]


def test_different_numbers_of_variables_are_refused(graph):
    with pytest.raises(ConfigError, match="tower 0 has 2 .* tower 1 has 1: expected the same"):
        reduce_metric_variables([variables([1.0, 2.0]), variables([1.0])])


@pytest.mark.parametrize("other", [([1], tf.int32), ([[1.0, 2.0]], tf.float32)])
def test_different_variables_are_refused(graph, other):
    with pytest.raises(ConfigError, match="tower 0 has .* where tower 1 has .*: expected the same"):
        reduce_metric_variables([variables([1.0]), variables(*other)])
