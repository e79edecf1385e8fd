"""Steps that failed while they waited for data, and what they may have changed before."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.step.loop_graph import LoopGraph
from tpack.step.op_traceback import data_taken_by


def failed_at(op):
    return tf.errors.OutOfRangeError(None, None, f"queue is closed\n\t [[{{{{node {op.name}}}}}]]")


@pytest.fixture
def queue(graph):
    return tf.FIFOQueue(10, [tf.float32], [[]])


def variable(name, **options):
    return tf.get_variable(name, [], initializer=tf.zeros_initializer(), use_resource=True, **options)


def test_a_step_that_needs_data_for_all_it_changes_has_changed_nothing(queue):
    first = queue.dequeue()
    with tf.control_dependencies([first]):
        second = queue.dequeue()
    train_op = tf.group(variable("a").assign_add(first + second).op, variable("b").assign(second).op)
    assert data_taken_by(train_op, failed_at(first.op)) == 1
    assert data_taken_by(train_op, failed_at(second.op)) == 2


def test_what_changes_before_the_data_are_there_may_have_changed(queue):
    first = queue.dequeue()
    with tf.control_dependencies([first]):
        second = queue.dequeue()
    train_op = tf.group(variable("mean").assign_add(first).op, variable("b").assign(second).op)
    assert data_taken_by(train_op, failed_at(first.op)) == 1
    assert data_taken_by(train_op, failed_at(second.op)) is None


def test_python_code_may_have_changed_anything(queue):
    data = queue.dequeue()
    train_op = tf.group(variable("a").assign(data).op, tf.py_func(lambda: 1.0, [], tf.float32))
    assert data_taken_by(train_op, failed_at(data.op)) is None


def test_what_is_local_to_a_run_is_not_saved(queue):
    data = queue.dequeue()
    count = variable("count", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    train_op = tf.group(variable("a").assign(data).op, count.assign_add(1.0).op)
    assert data_taken_by(train_op, failed_at(data.op)) == 1


def test_data_that_are_taken_side_by_side_leave_it_open_which_were_taken(queue):
    one, other = queue.dequeue(), queue.dequeue()
    train_op = variable("a").assign(one + other).op
    assert data_taken_by(train_op, failed_at(one.op)) is None


def test_other_errors_leave_it_open_too(queue):
    data = queue.dequeue()
    train_op = variable("a").assign(data).op
    assert data_taken_by(train_op, ValueError("of a callback")) is None
    assert data_taken_by(train_op, tf.errors.CancelledError(None, None, "no operation is named")) is None
    assert data_taken_by(train_op, failed_at(train_op)) is None
    wrapped = ValueError("the data ended")
    wrapped.__cause__ = failed_at(data.op)
    assert data_taken_by(train_op, wrapped) == 1


def test_an_operation_that_failed_in_a_loop_of_steps_stands_for_the_one_it_is_a_copy_of(queue):
    data = queue.dequeue()
    train_op = variable("a").assign(data).op
    several = LoopGraph([train_op])
    fill = [queue.enqueue_many([[1.0, 2.0]]), queue.close()]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for operation in fill:
            session.run(operation)
        with pytest.raises(tf.errors.OutOfRangeError) as error:
            session.run(several.num_made, {several.num_steps: 5})
    assert data_taken_by(train_op, error.value) is None
    assert data_taken_by(train_op, error.value, prefix=several.prefix) == 1
