"""Walks, filters and borders."""

import re

import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, names
from tpack.errors import ConfigError, WrongTypeError


@pytest.fixture
def tensors(graph):
    return build()


def test_a_forward_walk_finds_what_depends_on_its_seeds(graph, tensors):
    a, b, c, d, *_, g = tensors
    assert names(ge.get_forward_walk_ops(c.op)) == "c d e f g"
    assert names(ge.get_forward_walk_ops([c.op], inclusive=False)) == "d e f g"
    assert names(ge.get_forward_walk_ops([c])) == "d e f g"
    assert names(ge.get_forward_walk_ops([a.op], within_ops=[a.op, c.op, d.op])) == "a c d"
    assert ge.get_forward_walk_ops([a.op], within_ops=[c.op, d.op]) == []
    assert names(ge.get_forward_walk_ops([a.op], within_ops_fn=lambda op: op is not g.op)) == "a c d e f"
    assert names(ge.get_forward_walk_ops([a.op], stop_at_ts=[d])) == "a c d f g"
    within = [b.op, tensors[4].op]
    assert names(ge.get_forward_walk_ops([b.op], within_ops=within, control_outputs=ge.ControlOutputs(graph))) == "b e"


def test_a_backward_walk_finds_what_its_seeds_depend_on(tensors):
    *_, c, d, e, _, g = tensors
    assert names(ge.get_backward_walk_ops(e.op)) == names(ge.get_backward_walk_ops([e])) == "a b c d d/y e"
    assert names(ge.get_backward_walk_ops([e.op], control_inputs=True)) == "a b c d d/y e"
    assert names(ge.get_backward_walk_ops([g.op], stop_at_ts=[c])) == "a d d/y e f g"
    assert names(ge.get_backward_walk_ops([g.op], within_ops=[])) == "g"
    assert ge.get_backward_walk_ops([]) == []


def test_two_walks_meet_or_are_joined(tensors):
    *_, c, _, e, f, _ = tensors
    assert names(ge.get_walks_intersection_ops([c.op], [e.op])) == "c d e"
    assert names(ge.get_walks_intersection_ops([c.op], [e.op], False, False)) == "d"
    assert names(ge.get_walks_union_ops([f.op], [c.op])) == "a b c f g"


def test_a_border_ends_a_walk_in_all_directions(graph, tensors):
    a, _, c, d, e, f, g = tensors
    assert names(ge.get_within_boundary_ops(graph, [d.op], [c.op, f.op])) == "c d d/y e f"
    assert names(ge.get_within_boundary_ops(graph, [d.op], [c.op, f.op], inclusive=False)) == "d d/y e"
    some = [tensor.op for tensor in (a, c, d, e, f, g)]
    assert names(ge.get_within_boundary_ops(some, [d.op], [c.op])) == "a c d e f g"
    assert [names(part) for part in ge.compute_boundary_ts([c.op, d.op])] == ["a b d/y", "c d", "c"]
    assert names(ge.get_ops_ios([c.op])) == "a b d f"
    assert names(ge.get_ops_ios([tensors[1].op], control_ios=ge.ControlOutputs(graph))) == "c e"


def test_filters_look_at_inputs_and_outputs(graph, tensors):
    *_, c, d, _, _, _ = tensors
    assert names(ge.filter_ts([c.op, d.op], True)) == "a b c d d/y"
    assert ge.filter_ts([c.op, d.op], lambda tensor: tensor is c) == [c]
    assert names(ge.filter_ts_from_regex(graph, "d")) == "d d/y"
    assert ge.filter_ops([c.op, d.op], lambda op: op is d.op) == [d.op]
    assert names(ge.filter_ops_from_regex(graph, re.compile("^s/"))) == "c d d/y e"
    assert names(ge.get_name_scope_ops(graph, "s/")) == names(ge.get_name_scope_ops(graph, "s")) == "c d d/y e"
    assert names(ge.get_name_scope_ops(graph, "s/c")) == "c"


def test_operations_and_tensors_are_selected_by_objects_and_patterns(graph, tensors):
    *_, c, d, e, _, _ = tensors
    assert names(ge.select_ops("^s/", c.op, graph=graph)) == names(ge.select_ts("^s/", graph=graph)) == "c d d/y e"
    assert ge.select_ops(c.op, [d.op, e.op], positive_filter=lambda op: op is not d.op) == [c.op, e.op]
    assert (ge.select_ops(c), ge.select_ts(c.op)) == ([], [])
    assert ge.select_ops("(?#ts)^s/", graph=graph) == ge.select_ops("s", graph=graph, restrict_ops_regex=True) == []
    assert names(ge.select_ops("(?#ops)^s/c", graph=graph, restrict_ops_regex=True)) == "c"
    assert [names(part) for part in ge.select_ops_and_ts("^s/c", "(?#ts)^f", graph=graph)] == ["c", "f"]


def test_other_arguments_are_refused(graph, tensors):
    with pytest.raises(ConfigError, match=r"select_ops got '\^s/': expected a graph beside a pattern"):
        ge.select_ops("^s/")
    with pytest.raises(ConfigError, match="select_ts got scope: expected graph, positive_filter or restrict_ts_regex"):
        ge.select_ts("^s/", graph=graph, scope="s")
    with pytest.raises(ConfigError, match="make_regex got obj=1"):
        ge.make_regex(1)
    with pytest.raises(WrongTypeError, match="check_cios got control_outputs=True"):
        ge.check_cios(True, True)
    cios = ge.ControlOutputs(graph)
    with pytest.raises(ConfigError, match="control_ios and control_outputs"):
        ge.check_cios(control_outputs=cios, control_ios=cios)
    assert ge.check_cios(control_ios=cios) == (True, cios)
    assert ge.check_cios() == (False, None)
    assert not ge.can_be_regex(tf.float32)
