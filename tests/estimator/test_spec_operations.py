"""What stands behind an op."""

import tensorflow.compat.v1 as tf

from tpack.estimator.spec import operation_of


def test_operations_of_what_people_call_ops(session8):
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    nothing = tf.no_op()
    assert operation_of(nothing) is nothing
    assert operation_of(tf.constant(1, name="one")).name == "one"
    with tf.control_dependencies([operation_of(variable.assign_add(2.0))]):
        after = tf.no_op()
    session8.run(variable.initializer)
    session8.run(after)
    assert session8.run(variable) == 2
