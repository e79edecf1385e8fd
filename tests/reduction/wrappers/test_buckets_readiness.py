from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import source
from tpack.reduction.wrappers.buckets import last_created_first, shallowest_first


def _layers(num_layers: int) -> list[Any]:
    return [tf.get_variable(f"w{n}", [4, 4], use_resource=True) for n in range(num_layers)]


def test_last_created_first_reverses() -> None:
    assert last_created_first("abc") == [2, 1, 0]
    assert last_created_first([]) == []


def test_shallowest_first_finds_the_order_of_the_backward_pass(graph: Any) -> None:
    variables = _layers(4)
    # The layers are used in another order than they were created.
    used = [2, 0, 3, 1]
    hidden = source([[1.0] * 4], "", dtype=tf.float32)
    for n in used:
        hidden = tf.tanh(hidden @ variables[n])
    grads = tf.gradients(hidden, variables)
    assert shallowest_first(grads) == used[::-1]


def test_shallowest_first_takes_the_last_of_one_depth_first(graph: Any) -> None:
    a, b = source(1.0, ""), source(2.0, "")
    deep = a + b + a
    assert shallowest_first([a, deep, b]) == [2, 0, 1]
    assert shallowest_first([]) == []


def test_shallowest_first_counts_control_dependencies(graph: Any) -> None:
    a = tf.constant(1.0)
    with tf.control_dependencies([tf.identity(tf.identity(a))]):
        late = tf.constant(2.0)
    assert shallowest_first([a, late, tf.negative(a)]) == [0, 2, 1]


def test_shallowest_first_ends_in_a_loop(graph: Any) -> None:
    start = source(1.0, "")
    with tf.Graph().as_default():
        tf.disable_control_flow_v2()
        try:
            start = tf.constant(1.0)
            looped = tf.while_loop(lambda x: x < 9.0, lambda x: 2.0 * x, [start])
        finally:
            tf.enable_control_flow_v2()
        assert any(op.type == "NextIteration" for op in start.graph.get_operations())
        assert shallowest_first([looped, start]) == [1, 0]
