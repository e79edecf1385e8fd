"""Copies of operations under other names: wired to each other, and to the originals' inputs outside."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.graph_copy.nodes import NodeCopier, add_to_graph, colocations, external_inputs, op_of_input


@pytest.fixture
def ops(graph):
    outside = tf.constant([1.0, 2.0], name="outside")
    first = tf.split(outside, 2, name="first")[1].op
    with tf.control_dependencies([outside.op]), tf.colocate_with(outside.op):
        second = tf.negative(first.outputs[1], name="second").op
    with tf.control_dependencies([first]), tf.colocate_with(first):
        third = tf.no_op(name="third")
    return [first, second, third]


def copies_of(ops, **options):
    copier = NodeCopier({op.name for op in ops}, lambda name: f"copy/{name}", **options)
    for op in ops:
        copier.add(op.node_def)
    return copier


def test_copies_use_each_other_and_what_is_outside(graph, ops):
    first, second, third = add_to_graph(copies_of(ops).graph_def)
    assert [op.name for op in (first, second, third)] == ["copy/first", "copy/second", "copy/third"]
    assert first.inputs[1].name == "outside:0"
    assert second.inputs[0].name == "copy/first:1"
    assert [op.name for op in second.control_inputs] == ["outside"]
    assert [op.name for op in third.control_inputs] == ["copy/first"]
    assert [colocations(op.node_def) for op in (second, third)] == [["outside"], ["copy/first"]]


def test_places_outside_may_be_others_or_dropped(graph, ops):
    moved = copies_of(ops, place_of=lambda name: f"other_{name}").graph_def.node
    assert colocations(moved[1]) == ["other_outside"]
    dropped = copies_of(ops, place_of=lambda name: None).graph_def.node
    assert "_class" not in dropped[1].attr
    assert colocations(dropped[2]) == ["copy/first"]


def test_given_tensors_stand_for_inputs_and_control_inputs(graph, ops):
    other = tf.constant([5.0, 6.0], name="other")
    first, second, _ = add_to_graph(copies_of(ops).graph_def, given={"outside": other})
    assert first.inputs[1] is other
    assert second.control_inputs == [other.op]
    with tf.Session() as session:
        assert session.run(second.outputs[0]).tolist() == [-6.0]


def test_inputs_are_named_by_their_operations(ops):
    nodes = [op.node_def for op in ops]
    assert external_inputs(nodes) == ["first/split_dim", "outside", "^outside"]
    assert [op_of_input(name) for name in ("^outside", "first:1", "second")] == ["outside", "first", "second"]
