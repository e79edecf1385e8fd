"""Names of towers and tensors, and the values of variables that are asked for by name."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tower.context import TowerContext
from tpack.tower.names import join_scope, op_and_tensor_name, tower_name, value_if_variable, values_by_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cost", ("cost", "cost:0")),
        ("cost:0", ("cost", "cost:0")),
        ("scope/split:12", ("scope/split", "scope/split:12")),
    ],
)
def test_op_and_tensor_name_takes_both_spellings(name, expected):
    assert op_and_tensor_name(name) == expected


@pytest.mark.parametrize("name", ["", ":0", "a:", "a:x", "a:-1", "a:0:1"])
def test_op_and_tensor_name_refuses_what_names_no_output(name):
    with pytest.raises(ConfigError, match="expected 'op_name'"):
        op_and_tensor_name(name)


def test_tower_name_counts_from_zero():
    assert [tower_name(k) for k in range(3)] == ["tower0", "tower1", "tower2"]


def test_join_scope_leaves_out_an_empty_scope():
    assert join_scope("a/b", "c") == "a/b/c"
    assert join_scope("", "c") == "c"
    assert join_scope("a", "") == "a/"


@pytest.mark.parametrize("key", [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES])
def test_a_handle_becomes_the_value(session8, key):
    variable = tf.get_variable("rate", initializer=0.5, use_resource=True, collections=[key])
    value = value_if_variable(session8.graph.get_tensor_by_name("rate:0"))
    session8.run(variable.initializer)
    assert session8.run(value) == 0.5


def test_any_other_tensor_stays_what_it_is(graph):
    variable = tf.get_variable("old", initializer=0.5, use_resource=False)
    for tensor in (tf.constant(1.0), graph.get_tensor_by_name("old:0"), variable.value()):
        assert value_if_variable(tensor) is tensor
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
    assert value_if_variable(handle) is handle


def test_variables_are_found_by_name_as_values_in_a_block(session8):
    variable = tf.get_variable("w", initializer=3.0)
    session8.run(tf.global_variables_initializer())
    graph = session8.graph
    with values_by_name(graph):
        with values_by_name(graph):
            assert session8.run(graph.get_tensor_by_name("w:0")) == 3.0
        assert graph.get_tensor_by_name("w:0").dtype == tf.float32
        with pytest.raises(KeyError, match="'x:0'"):
            graph.get_tensor_by_name("x:0")
    assert graph.get_tensor_by_name("w:0") is variable.handle


def test_a_block_of_values_keeps_errors_and_explains_those_of_handles(graph):
    variable = tf.get_variable("w", initializer=3.0)
    for error in (ValueError("wrong"), TypeError("wrong"), KeyError("wrong")):
        with pytest.raises(type(error), match="wrong"), values_by_name(graph):
            raise error
    for use in (lambda: variable.handle * 2.0, lambda: variable.assign(variable.handle)):
        wanted = "the handle of a variable is used as .* its read_value"
        with pytest.raises(GraphBuildError, match=wanted), values_by_name(graph):
            use()
    with pytest.raises(GraphBuildError, match="the handle of a variable is used as"), TowerContext("", True):
        graph.get_tensor_by_name("w:0") * 2.0
