import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, run_steps
from tpack.errors import ConfigError
from tpack.graph_builder.towers import AsyncMultiGPUBuilder
from tpack.tfutils.gradproc import SummaryGradient
from tpack.tfutils.optimizer import apply_grad_processors


def test_asynchronous_adam_advances_its_beta_powers_once_an_update(graph):
    result = build(AsyncMultiGPUBuilder(4), tf.train.AdamOptimizer(0.1, beta1=0.5))
    with run_steps(result, 1) as session:
        [power] = [v for v in tf.global_variables() if "beta1_power" in v.op.name]
        np.testing.assert_allclose(session.run(power), 0.5**5)


def test_each_tower_updates_after_the_one_before(graph):
    build(AsyncMultiGPUBuilder(3), tf.train.AdamOptimizer(0.1))
    updates = [graph.get_operation_by_name(f"apply_gradients_{k}") for k in range(3)]
    for index in (1, 2):
        prefix = f"apply_gradients_{index}/"
        changes = [op for op in graph.get_operations() if op.name.startswith(prefix) and op.type.startswith("Resource")]
        assert changes
        assert all(_runs_after(change, updates[index - 1]) for change in changes)


def _runs_after(op, earlier):
    waiting, seen = [op], set()
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return earlier in seen


@pytest.mark.parametrize("scale", [True, False])
def test_asynchronous_gradients_are_scaled(graph, scale):
    def constant_grad():
        return [(tf.ones([2]), tf.get_variable("w", [2], initializer=tf.zeros_initializer()))]

    def sparse_grad():
        table = tf.get_variable("table", [3, 2], initializer=tf.zeros_initializer())
        return [(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2])), table)]

    result = AsyncMultiGPUBuilder(4, scale).build(
        lambda: constant_grad() + sparse_grad(), lambda: tf.train.GradientDescentOptimizer(1.0)
    )
    with run_steps(result, 1) as session:
        dense, table = session.run(tf.trainable_variables())
    np.testing.assert_allclose(dense, [-1.0 if scale else -4.0] * 2)
    np.testing.assert_allclose(table, np.outer([0, dense[0], 0], [1, 1]))


def test_gradients_are_summarised_in_the_main_tower_only(graph):
    optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [SummaryGradient("a")])
    result = build(AsyncMultiGPUBuilder(3), optimizer)
    with run_steps(result, 1) as session:
        session.run(tf.summary.merge_all())
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2


def test_what_is_neither_true_nor_false_does_not_scale():
    with pytest.raises(ConfigError, match="AsyncMultiGPUBuilder got scale_gradient='x': expected True or False"):
        AsyncMultiGPUBuilder(2, "x")
