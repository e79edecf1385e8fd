"""Views that are taken out, connected and left out."""

import pytest

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, inputs, names
from tpack.errors import ConfigError


@pytest.fixture
def tensors(graph):
    return build()


def test_a_detached_view_has_placeholders_around_it(tensors):
    _, _, c, d, e, f, _ = tensors
    view, before, after = ge.detach(ge.sgv(c.op, d.op))
    assert names(before) == "d/geph__y_0 geph__a_0 geph__b_0"
    assert names(after) == "geph__c_0 geph__d_0"
    assert view.inputs == before
    assert [inputs(tensor.op) for tensor in (c, d, e, f)] == [
        ["geph__a_0", "geph__b_0"],
        ["s/c", "s/d/geph__y_0"],
        ["s/geph__d_0"],
        ["s/geph__c_0", "s/e"],
    ]
    assert ge.detach(ge.SubGraphView())[1:] == ([], [])


def test_control_edges_are_detached_where_they_count(graph, tensors):
    _, b, _, _, e, *_ = tensors
    ge.detach(ge.sgv(e.op))
    assert e.op.control_inputs == [b.op]
    ge.detach(ge.sgv(e.op), control_inputs=True)
    assert e.op.control_inputs == []
    ge.add_control_inputs(e.op, b.op)
    ge.detach_control_outputs(ge.sgv(b.op), ge.ControlOutputs(graph))
    assert e.op.control_inputs == []
    ge.add_control_inputs(e.op, b.op)
    ge.detach_outputs(ge.sgv(b.op), ge.ControlOutputs(graph))
    assert e.op.control_inputs == []


@pytest.mark.parametrize("first", [False, True])
def test_views_are_connected(tensors, first):
    a, _, c, _, _, f, g = tensors
    _, second = ge.connect(ge.sgv(a.op), ge.sgv(f.op).remap_inputs([1]), disconnect_first=first)
    assert inputs(f.op) == ["s/c", "a"]
    assert second.inputs == [a]
    assert inputs(c.op) == (["geph__a_0", "b"] if first else ["a", "b"])
    assert inputs(g.op) == (["f", "geph__a_0"] if first else ["f", "a"])
    with pytest.raises(ConfigError, match="got 1 tensors and 2"):
        ge.connect(ge.sgv(a.op), ge.sgv(g.op))


def test_a_bypassed_view_is_left_out(session8, tensors):
    a, _, _, d, e, f, _ = tensors
    view, detached = ge.bypass(ge.sgv(d.op, e.op).remap_inputs([0]))
    assert view.inputs == detached
    assert inputs(f.op) == ["s/c", "s/c"]
    assert inputs(d.op) == ["s/geph__c_0", "s/d/y"]
    assert session8.run(f, {a: [1.0, 2.0]}).tolist() == [0.0, 0.0]
