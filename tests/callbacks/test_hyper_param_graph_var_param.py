import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.hyper_param import GraphVarParam
from tpack.errors import CallbackError


@pytest.mark.parametrize("collection", ["GLOBAL_VARIABLES", "LOCAL_VARIABLES"])
@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_is_read_and_set(session8, collection, use_resource):
    key = getattr(tf.GraphKeys, collection)
    variable = tf.get_variable("scope/rate", initializer=0.5, collections=[key], use_resource=use_resource)
    param = GraphVarParam("scope/rate:0")
    param.setup_graph()
    session8.run(variable.initializer)
    assert param.get_value() == 0.5
    for value in (0.25, np.float64(2), 3):
        param.set_value(value)
        assert session8.run(variable) == value
    assert param.readable_name == "scope/rate"


def test_an_array_is_set_if_its_shape_is_right(session8):
    variable = tf.get_variable("weights", initializer=np.zeros(3, np.float32), use_resource=True)
    param = GraphVarParam("weights", shape=(3,))
    param.setup_graph()
    session8.run(variable.initializer)
    param.set_value([1, 2, 3])
    np.testing.assert_array_equal(param.get_value(), [1, 2, 3])
    with pytest.raises(CallbackError, match=r"got value=5.*: expected the shape \(3,\)"):
        param.set_value(5)


def test_a_variable_that_is_not_in_the_graph_lists_near_names(graph):
    for name in ("learning_rate", "momentum"):
        tf.get_variable(name, initializer=0.1)
    with pytest.raises(CallbackError, match="no variable 'learn_rate'; near names: learning_rate"):
        GraphVarParam("learn_rate").setup(None)
    with pytest.raises(CallbackError, match="no variable 'xyz'; there are 2 variables"):
        GraphVarParam("xyz").setup_graph()


def test_a_name_that_is_near_none_lists_scalars_that_are_not_trained(graph):
    for name in ("scope/inner", "learning_rate", "m1", "m2", "m3", "m4"):
        tf.get_variable(name, initializer=0.1, trainable=False)
    tf.get_variable("trained", initializer=0.1)
    tf.get_variable("global_step", initializer=0, trainable=False)
    tf.get_variable("vector", [3], trainable=False)
    with pytest.raises(CallbackError, match="'lr'; scalars that are not trained: learning_rate, m1, m2, m3, m4$"):
        GraphVarParam("lr").setup_graph()


def test_another_shape_is_an_error(graph):
    tf.get_variable("weights", [3])
    with pytest.raises(CallbackError, match=r"'weights' has shape \(3,\): expected \(\)"):
        GraphVarParam("weights").setup_graph()


def test_without_a_session_nothing_can_be_read_or_set(graph):
    tf.get_variable("rate", initializer=0.1)
    param = GraphVarParam("rate")
    param.setup_graph()
    for act in (param.get_value, lambda: param.set_value(1.0)):
        with pytest.raises(CallbackError, match="while its training runs"):
            act()


def test_another_session_is_set_in_its_turn(graph):
    variable = tf.get_variable("rate", initializer=0.1, use_resource=True)
    param = GraphVarParam("rate")
    param.setup_graph()
    for value in (1.0, 2.0):
        with tf.Session() as session:
            session.run(variable.initializer)
            param.set_value(value)
            assert session.run(variable) == value
