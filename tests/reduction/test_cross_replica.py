"""Sums over towers inside the model, against one tower that holds everything."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tpack.errors import ReductionError, TowerError, TowerMismatchError
from tpack.graph_builder.towers import build_towers
from tpack.reduction.cross_replica import mean_over_towers, stack_over_towers, sum_over_towers
from tpack.tower.context import PredictTowerContext, TowerContext, current_tower_context


def run_towers(num_towers, func, *, own_variables=False):
    devices = [f"/device:CPU:{k}" for k in range(num_towers)]
    return build_towers(func, devices, [own_variables] * num_towers).outputs


def index():
    return current_tower_context().index


def costs(total):
    """Return what each tower's cost is of its copy of the total."""
    return [tf.reduce_sum(tf.square(total) * (k + 1.0)) for k in range(4)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("own_variables", [False, True])
def test_sum_and_its_gradient_are_those_of_one_tower(session8, rng, dtype, own_variables):
    values = rng.normal(size=(4, 3)).astype(dtype)

    def func():
        x = tf.constant(values[index()])
        total = sum_over_towers(x)
        (grad,) = tf.gradients(tf.reduce_sum(tf.square(total) * (index() + 1.0)), [x])
        return total, grad

    outputs = session8.run(run_towers(4, func, own_variables=own_variables))
    everything = tf.constant(values)
    oracle = session8.run(tf.gradients(costs(tf.reduce_sum(everything, 0)), [everything])[0])
    for k, (total, grad) in enumerate(outputs):
        assert total.dtype == dtype
        np.testing.assert_array_equal(total, outputs[0][0])
        np.testing.assert_allclose(total, values.sum(0), rtol=1e-6)
        np.testing.assert_allclose(grad, oracle[k], rtol=1e-6)


def test_mean_is_the_sum_divided_and_so_is_its_gradient(session8, rng):
    values = rng.normal(size=(3, 2))

    def func():
        x = tf.constant(values[index()])
        mean = mean_over_towers(x)
        return mean, tf.gradients(mean * (index() + 1.0), [x])[0]

    for mean, grad in session8.run(run_towers(3, func)):
        np.testing.assert_allclose(mean, values.mean(0))
        np.testing.assert_allclose(grad, [2.0, 2.0])


def test_stack_gives_all_parts_and_each_its_gradient(session8, rng):
    values, factors = rng.normal(size=(3, 2)), rng.normal(size=(3, 3, 2))

    def func():
        x = tf.constant(values[index()])
        stacked = stack_over_towers(x)
        return stacked, tf.gradients(stacked * factors[index()], [x])[0]

    for k, (stacked, grad) in enumerate(session8.run(run_towers(3, func))):
        np.testing.assert_array_equal(stacked, values)
        np.testing.assert_allclose(grad, factors.sum(0)[k])


def test_second_derivatives_are_those_of_one_tower(session8, rng):
    values = rng.normal(size=(4, 3))

    def func():
        x = tf.constant(values[index()])
        (grad,) = tf.gradients(tf.reduce_sum(sum_over_towers(x) ** 4) * (index() + 1.0), [x])
        return tf.gradients(tf.reduce_sum(tf.square(grad)), [x])[0]

    outputs = session8.run(run_towers(4, func))
    everything = tf.constant(values)
    total = tf.reduce_sum(everything, 0)
    (grad,) = tf.gradients([tf.reduce_sum(total**4) * (k + 1.0) for k in range(4)], [everything])
    np.testing.assert_allclose(outputs, session8.run(tf.gradients(tf.reduce_sum(tf.square(grad)), [everything])[0]))


def test_gradients_stay_in_their_tower(graph):
    def func():
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        x = w * tf.constant(2.0, name="factor")
        for _ in range(2):
            x = tf.tanh(sum_over_towers(x))
        tf.gradients(tf.reduce_sum(x), [w])

    run_towers(3, func)
    per_tower = [
        [op.type for op in graph.get_operations() if op.name.startswith(f"tower{k}/gradients")] for k in range(3)
    ]
    assert per_tower[0] == per_tower[1] == per_tower[2]
    assert per_tower[0].count("TanhGrad") == 2


def test_results_lie_on_their_towers(session8):
    def func():
        x = tf.placeholder_with_default([1.0], [1])
        with tf.device("/device:CPU:7"), tf.name_scope("other"):
            return sum_over_towers(x)

    outputs = run_towers(3, func)
    places = placed_devices(session8, outputs)
    copies = {op: place for op, place in places.items() if op.startswith("sum_over_towers/Identity")}
    assert sorted(copies.values()) == ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]
    assert places["sum_over_towers/AddN"] == "/device:CPU:0"


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_narrow_types_are_added_in_float32(session8, dtype):
    def func():
        x = tf.cast([2048.0 if index() == 0 else 1.0], dtype)
        total = sum_over_towers(x)
        return tf.cast(total, tf.float32), tf.gradients(total, [x])[0] is not None

    outputs = run_towers(5, func)
    assert all(has_gradient for _, has_gradient in outputs)
    np.testing.assert_array_equal(
        session8.run([total for total, _ in outputs]), [[2052.0 if dtype == tf.float16 else 2048.0]] * 5
    )


@pytest.mark.parametrize("context", [TowerContext("", True), PredictTowerContext("p", index=1, total=2)])
def test_a_tower_alone_is_the_sum(graph, context):
    with context:
        x = tf.constant([1.0, 2.0])
        assert sum_over_towers(x) is x
        assert mean_over_towers(x) is x
        assert stack_over_towers(x).shape == [1, 2]


def test_outside_of_a_tower_is_an_error(graph):
    with pytest.raises(TowerError, match="no tower is current"):
        sum_over_towers(tf.constant(1.0))


def test_tensors_that_differ_are_an_error(graph):
    with pytest.raises(
        ReductionError, match=r"tower 0 has .* of float32 and shape \(1,\), tower 1 has .* shape \(2,\)"
    ):
        run_towers(2, lambda: sum_over_towers(tf.ones([index() + 1])))
    with pytest.raises(ReductionError, match="of float64"):
        run_towers(2, lambda: stack_over_towers(tf.ones([], tf.float32 if index() else tf.float64)))
    with pytest.raises(ReductionError, match=r"expected floating-point tensors, got .* of int32"):
        run_towers(2, lambda: sum_over_towers(tf.ones([], tf.int32)))


def test_a_gradient_built_outside_of_its_tower_is_an_error(graph):
    xs = []

    def func():
        xs.append(tf.constant(1.0))
        return sum_over_towers(xs[-1])

    totals = run_towers(2, func)
    with pytest.raises(TowerError, match="must be built in training tower 'tower0'"):
        tf.gradients(totals[0], [xs[0]])


def test_a_gradient_that_only_some_towers_want_is_an_error(graph):
    def func():
        x = tf.constant(1.0)
        total = sum_over_towers(x)
        return tf.gradients(total if index() else x, [x])

    with pytest.raises(TowerMismatchError, match="tower 0 ended after 1 .* tower 1 makes one more, with .*sum_columns"):
        run_towers(2, func)
