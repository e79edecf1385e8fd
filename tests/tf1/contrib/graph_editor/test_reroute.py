"""Other inputs for operations that exist."""

import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, inputs
from tpack.errors import ConfigError, WrongTypeError


@pytest.fixture
def tensors(graph):
    return build()


def test_consumers_take_another_tensor(tensors):
    a, b, c, *_, g = tensors
    assert ge.reroute_ts([b], [a], can_modify=[g.op]) == 1
    assert (inputs(c.op), inputs(g.op)) == (["a", "b"], ["f", "b"])
    assert ge.reroute_ts({b: 1}.keys(), {a: 1}.keys(), cannot_modify=[c.op]) == 0
    assert ge.reroute_ts(b, a) == 1
    assert inputs(c.op) == ["b", "b"]
    assert ge.reroute_ts([a], [b], can_modify=[]) == 0


def test_several_are_rerouted_at_once(session8, tensors):
    a, b, c, d, _, f, g = tensors
    assert ge.reroute_ts([b, a], [a, c]) == 4
    assert [inputs(tensor.op) for tensor in (c, d, f, g)] == [["b", "b"], ["a", "s/d/y"], ["a", "s/e"], ["f", "b"]]
    assert session8.run(g, {a: [1.0, 2.0]}).tolist() == [0.0, 0.0]


def test_swapped_tensors_change_places(tensors):
    a, b, c, _, e, f, g = tensors
    assert ge.swap_ts([b], [a]) == 3
    assert (inputs(c.op), inputs(g.op)) == (["b", "a"], ["f", "b"])
    ge.swap_inputs(ge.sgv(e.op), ge.sgv(f.op).remap_inputs([0]))
    assert (inputs(e.op), inputs(f.op)) == (["s/c"], ["s/d", "s/e"])


def test_views_take_each_other_s_inputs_and_outputs(tensors):
    _, _, c, d, e, f, _ = tensors
    first, second = ge.reroute_inputs(ge.sgv(d.op).remap_inputs([0]), ge.sgv(f.op).remap_inputs([1]))
    assert inputs(f.op) == ["s/c", "s/c"]
    assert first.inputs == second.inputs == [c]
    ge.reroute_outputs(ge.sgv(c.op), ge.sgv(d.op))
    assert inputs(e.op) == ["s/c"]


def test_views_are_rerouted_whole(tensors):
    _, _, c, d, e, *_ = tensors
    ge.reroute_ios(ge.sgv(c.op).remap_inputs([0]), ge.sgv(d.op).remap_inputs([0]))
    assert (inputs(d.op), inputs(e.op)) == (["a", "s/d/y"], ["s/c"])


def test_views_are_swapped_whole(tensors):
    _, _, c, d, e, f, _ = tensors
    ge.swap_ios(ge.sgv(c.op).remap_inputs([0]), ge.sgv(e.op))
    assert [inputs(tensor.op) for tensor in (c, d, e, f)] == [["s/d", "b"], ["s/e", "s/d/y"], ["a"], ["s/e", "s/c"]]


def test_control_inputs_come_and_go(tensors):
    _, b, c, _, e, _, g = tensors
    ge.add_control_inputs(g.op, [b.op, c.op])
    assert set(g.op.control_inputs) == {b.op, c.op}
    ge.remove_control_inputs(g.op, b.op)
    assert g.op.control_inputs == [c.op]
    with pytest.raises(ConfigError, match="add_control_inputs got cops='b': expected no control input of s/e"):
        ge.add_control_inputs(e.op, [b.op])
    with pytest.raises(ConfigError, match="remove_control_inputs got cops='s/c': expected control inputs of s/e"):
        ge.remove_control_inputs(e.op, [c.op])


def test_tensors_that_do_not_fit_are_refused(tensors):
    a, b, c, *_ = tensors
    with pytest.raises(ConfigError, match="got 1 tensors and 2 tensors"):
        ge.reroute_ts([b], [a, c])
    for other in (tf.constant(1), tf.constant([1.0, 2.0, 3.0])):
        with pytest.raises(ConfigError, match="expected the same dtype and shape"):
            ge.reroute_ts([other], [a])
    with pytest.raises(WrongTypeError):
        ge.add_control_inputs(c.op, b)
