"""Lists, control outputs and placeholders."""

import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, names
from tpack.errors import WrongTypeError


@pytest.fixture
def tensors(graph):
    return build()


def test_lists_are_of_one_kind(graph, tensors):
    a, _, c, *_ = tensors
    assert ge.make_list_of_op(c.op) == ge.make_list_of_op([c.op, c], ignore_ts=True) == [c.op]
    assert ge.make_list_of_t(c) == ge.make_list_of_t([c, c.op], ignore_ops=True) == [c]
    assert names(ge.make_list_of_op(graph)) == names(ge.make_list_of_t(graph)) == "a b c d d/y e f g"
    for call, given in ((ge.make_list_of_op, [c]), (ge.make_list_of_t, c.op), (ge.make_list_of_op, 3)):
        with pytest.raises(WrongTypeError, match="expected objects of"):
            call(given)
    with pytest.raises(WrongTypeError, match="expected objects of Tensor"):
        ge.make_list_of_t(graph, allow_graph=False)
    assert names(ge.get_consuming_ops([a, c])) == "c d f g"
    assert ge.get_generating_ops([a, c, a]) == [a.op, c.op, a.op]
    with pytest.raises(WrongTypeError, match="get_tensors got graph"):
        ge.get_tensors(a)


def test_control_outputs_follow_the_graph(graph, tensors):
    _, b, c, _, e, *_ = tensors
    outputs = ge.ControlOutputs(graph)
    assert outputs.get_all() == {b.op: [e.op]}
    with tf.control_dependencies([c.op]):
        late = tf.no_op()
    assert outputs.get(c.op) == [late]
    assert outputs.graph is graph
    with pytest.raises(WrongTypeError, match="ControlOutputs got graph"):
        ge.ControlOutputs(c)


def test_placeholders_are_named_after_the_tensor(tensors):
    c = tensors[2]
    assert ge.placeholder_name() == "geph"
    assert ge.placeholder_name(c) == "s/geph__c_0"
    assert ge.placeholder_name(c, scope="q") == "q/geph__c_0"
    assert ge.placeholder_name(c, scope="", prefix="p") == "p__c_0"
    with tf.name_scope("open"):
        made = ge.make_placeholder_from_tensor(c, scope="q")
    assert (made.name, made.shape.as_list(), made.dtype) == ("q/geph__c_0:0", [2], tf.float32)
    assert ge.ph(tf.int32, [1], scope="k").name == "k/geph:0"
    with pytest.raises(WrongTypeError, match="placeholder_name got t"):
        ge.placeholder_name(c.op)
