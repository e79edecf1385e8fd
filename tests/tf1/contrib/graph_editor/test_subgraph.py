"""Views of a part of a graph."""

import pytest

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, names
from tpack.errors import ConfigError


@pytest.fixture
def tensors(graph):
    return build()


@pytest.fixture
def view(tensors):
    return ge.sgv(tensors[2].op, tensors[3].op)


def test_a_view_knows_what_enters_and_leaves(graph, tensors, view):
    a, _, c, d, *_ = tensors
    assert (names(view.inputs), names(view.outputs), names(view.ops)) == ("a b d/y", "c d", "c d")
    assert (view.connected_inputs, view.connected_outputs) == (view.inputs, view.outputs)
    assert (view.input_index(a), view.output_index(d)) == (0, 1)
    assert view.find_op_by_name("s/c") is view.op(0) is c.op
    assert names(view.consumers()) == "e f"
    assert view.graph is graph
    assert bool(view) and not ge.SubGraphView()
    assert ge.SubGraphView().graph is None
    assert "** inputs[3]:\n  a:0\n" in str(view)


def test_views_are_made_of_patterns_scopes_and_passing_tensors(graph, tensors, view):
    a, b, *_ = tensors
    for made in (ge.sgv("^s/", graph=graph), ge.sgv_scope("s", graph)):
        assert (names(made.inputs), names(made.outputs)) == ("a b", "c e")
    passing = ge.sgv(a, b)
    assert passing.inputs == passing.outputs == passing.passthroughs == [a, b]
    assert passing.is_passthrough(a) and not view.is_passthrough(a)
    assert passing.connected_inputs == passing.connected_outputs == []
    assert ge.make_view(view) is view


def test_inputs_and_outputs_are_chosen_by_numbers(tensors, view):
    a, b, c, d, *_ = tensors
    assert view.remap([1], [0]).inputs == [b]
    assert view.remap([1], [0]).outputs == [c]
    assert view.remap_inputs([1, 0]).inputs == [b, a]
    assert view.remap_outputs([0, 0]).outputs == [c, c]
    assert view.remap_outputs([0, 0]).remap_outputs_make_unique().outputs == [c]
    assert view.remap_outputs_to_consumers().outputs == [c, c, d]
    assert view.remap([1], [0]).remap_default(remove_output_map=False).inputs == view.inputs
    assert view.remap([1], [0]).remap_default().outputs == view.outputs
    assert view.copy() is not view


def test_operations_that_no_output_needs_are_left_out(tensors):
    ops = [tensor.op for tensor in tensors[2:6]]
    assert names(ge.sgv(ops).remove_unused_ops().ops) == "c d e f"
    first = ge.sgv(ops[:2]).remap_outputs([0]).remove_unused_ops()
    assert (names(first.ops), names(first.inputs)) == ("c", "a b")


def test_what_is_not_there_is_refused(tensors, view):
    with pytest.raises(ConfigError, match="new_input_indices with 7: expected numbers in"):
        view.remap_inputs([7])
    with pytest.raises(ConfigError, match="expected one of its 3 inputs"):
        view.input_index(tensors[3])
    with pytest.raises(ConfigError, match="op_name='c': expected one of its 2 operations"):
        view.find_op_by_name("c")
