"""Frozen graphs compute the same, with less."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tfutils.export import freeze, without_passing_nodes


def run(graph_def: Any, output: str, feeds: dict[str, Any]) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        (tensor,) = tf.import_graph_def(graph_def, return_elements=[output], name="")
        return session.run(tensor, feeds)


def build() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.device("/device:CPU:1"):
        weight = tf.get_variable("W", initializer=[3.0, 4.0], use_resource=True)
    _, second = tf.split(tf.check_numerics(x, "x"), 2)
    chain = tf.identity(tf.stop_gradient(tf.identity(second, name="chained")), name="passed")
    with tf.control_dependencies([tf.identity(x, name="awaited")]):
        ordered = tf.identity(chain, name="ordered")
    unused = tf.reduce_sum(weight, name="unused")
    assert unused.shape == ()
    with tf.colocate_with(ordered.op):
        factor = tf.identity(weight)
    with tf.device("/device:CPU:1"):
        return weight, tf.multiply(factor, ordered, name="output")


def test_frozen_graph_holds_values_and_only_what_is_needed(session8: Any) -> None:
    weight, output = build()
    session8.run(tf.global_variables_initializer())
    frozen = freeze(session8, [output])
    assert weight.op.name in {node.name for node in frozen.node}
    assert "unused" not in {node.name for node in frozen.node}
    assert {node.device for node in frozen.node} == {""}
    assert not any("_class" in node.attr for node in frozen.node)
    np.testing.assert_array_equal(run(frozen, "output:0", {"x:0": [1, 2]}), [6, 8])


def test_passing_nodes_go_unless_they_keep_an_order(session8: Any) -> None:
    _, output = build()
    session8.run(tf.global_variables_initializer())
    frozen = freeze(session8, [output])
    slim = without_passing_nodes(frozen, keep=["passed"])
    kept = {node.name for node in slim.node if node.op in ("Identity", "StopGradient", "CheckNumerics")}
    assert kept == {"passed", "awaited", "ordered"}
    np.testing.assert_array_equal(run(slim, "output:0", {"x:0": [1, 2]}), [6, 8])
    assert slim.versions == frozen.versions
    assert [node.name for node in without_passing_nodes(slim, keep=[]).node] == [
        node.name for node in slim.node if node.name != "passed"
    ]
