import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.names import value_if_variable


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
