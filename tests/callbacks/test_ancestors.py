import tensorflow.compat.v1 as tf

from tpack.callbacks.ancestors import ancestors


def test_ancestors_follow_data_and_control(graph):
    first = tf.constant(1.0, name="first")
    barrier = tf.no_op(name="barrier")
    with tf.control_dependencies([barrier]):
        second = tf.identity(first, name="second")
    tf.constant(2.0, name="stranger")
    assert {op.name for op in ancestors([second])} == {"first", "barrier", "second"}
    assert ancestors([barrier]) == {barrier}
    assert ancestors([]) == set()
