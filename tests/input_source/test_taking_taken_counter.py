"""The count of what steps take: in the graph, relative to a beginning."""

import tensorflow.compat.v1 as tf

from tpack.input_source.taking import TakenCounter


def test_each_run_of_what_takes_is_counted(graph):
    counter = TakenCounter()
    with counter.counting(3):
        first = tf.no_op()
    with tf.control_dependencies([first]), counter.counting(4):
        second = tf.no_op()
    assert counter.value() == 0
    counter.restart()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(first)
        counter.connect(session)
        values = []
        for ops in ([first], [second], [first, second], []):
            session.run(ops)
            values.append(counter.value())
        # The second waits for the first, so it takes both.
        assert values == [3, 10, 17, 17]
        counter.restart()
        assert counter.value() == 0
        session.run(first)
        assert counter.value() == 3


def test_it_is_no_part_of_a_checkpoint(graph):
    TakenCounter()
    assert tf.global_variables() == []
    assert [variable.op.device for variable in tf.local_variables()] == ["/device:CPU:0"]
