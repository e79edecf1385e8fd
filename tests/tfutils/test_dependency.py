"""What is needed for what."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.dependency import ancestors, dependency_of_fetches, dependency_of_targets, dependents, is_handle


def test_inputs_and_control_inputs_are_dependencies(graph: Any) -> None:
    a, b, c, unrelated = (tf.constant(1.0, name=name) for name in ("a", "b", "c", "unrelated"))
    with tf.control_dependencies([c]):
        total = tf.add(a, b, name="total")
    last = tf.group(total)
    for op in (a, b.op, c, total, last):
        assert dependency_of_targets([last], op)
    assert not dependency_of_targets([last], unrelated)
    assert not dependency_of_targets([a, b], total)
    assert not dependency_of_targets([], a)
    assert dependency_of_targets((unrelated, total), a)


def test_ancestors_are_the_targets_and_all_that_they_need(graph: Any) -> None:
    first = tf.constant(1.0, name="first")
    barrier = tf.no_op(name="barrier")
    with tf.control_dependencies([barrier]):
        second = tf.identity(first, name="second")
    tf.constant(2.0, name="stranger")
    assert {op.name for op in ancestors([second])} == {"first", "barrier", "second"}
    assert ancestors([barrier]) == {barrier}
    assert ancestors([]) == set()


def test_loops_end_the_search_once(graph: Any) -> None:
    start = tf.constant(0, name="start")
    limit = tf.constant(3, name="limit")
    with tf.Graph().as_default() as looped:
        x = tf.constant(1)
        entered = tf.raw_ops.Enter(data=x, frame_name="f")
        merged = tf.raw_ops.Merge(inputs=[entered, entered]).output
        back = tf.raw_ops.NextIteration(data=merged)
        merged.op._update_input(1, back)
        assert dependency_of_targets([back], x)
        assert x.graph is looped
    assert not dependency_of_targets([start], limit)


def test_variables_and_nests_are_fetches(graph: Any) -> None:
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    double = tf.multiply(variable, 2, name="double")
    sparse = tf.IndexedSlices(double[tf.newaxis], tf.constant([0], name="indices"))
    assert dependency_of_fetches({"a": [(double,)], "b": tf.constant(0)}, variable)
    assert dependency_of_fetches(["double:0"], variable.op)
    assert dependency_of_fetches(sparse, graph.get_operation_by_name("indices"))
    assert dependency_of_fetches(variable.initializer, variable)
    assert not dependency_of_fetches(variable, double)


@pytest.mark.parametrize("thing", [3, None, object()])
def test_other_things_are_refused(graph: Any, thing: Any) -> None:
    with pytest.raises(ConfigError, match=": expected an operation, a tensor or a variable"):
        dependency_of_targets([thing], tf.constant(0))
    with pytest.raises(ConfigError, match=": expected an operation, a tensor or a variable"):
        dependency_of_fetches([tf.constant(0)], thing)


def test_dependents_are_in_the_order_of_the_graph(graph: Any) -> None:
    first = tf.constant(1.0, name="first")
    tf.constant(2.0, name="stranger")
    second = tf.identity(first, name="second")
    with tf.control_dependencies([second]):
        third = tf.no_op(name="third")
    assert dependents([first.op]) == [first.op, second.op, third]
    assert dependents([third]) == [third]


def test_resources_and_references_are_handles(graph: Any) -> None:
    for use_resource, type_of_handle in ((True, "VarHandleOp"), (False, "VariableV2")):
        variable = tf.get_variable(f"v{use_resource}", [], use_resource=use_resource)
        assert variable.op.type == type_of_handle
        assert is_handle(variable.op.outputs[0])
        assert not is_handle(variable + 1.0)
