import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tfutils.checkpoints.async_writer import Background, SavedCopy


def saved_and_changed(saver, session, directory, change):
    """Copy, change the variables, save the copy, and return a reader of it."""
    copy = SavedCopy(saver, session.graph)
    copy.copy_from(session)
    session.run(change)
    with copy.graph.as_default():
        prefix = saver.save(copy, str(directory / "model"), 3, write_meta_graph=False)
    copy.close()
    return tf.train.load_checkpoint(prefix)


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_is_saved_is_what_was_copied(graph, session8, tmp_path, use_resource):
    matrix = tf.get_variable("matrix", initializer=np.ones([3, 2], "float32"), use_resource=use_resource)
    scalar = tf.get_variable("scalar", initializer=np.int64(4), use_resource=use_resource)
    half = tf.get_variable("half", initializer=tf.ones([2], tf.bfloat16), use_resource=use_resource)
    text = tf.get_variable("text", initializer=tf.constant([b"a", b"long"]), use_resource=use_resource)
    saver = tf.train.Saver()
    session8.run(tf.global_variables_initializer())
    changes = [tf.assign_add(v, tf.ones_like(v)) for v in (matrix, scalar, half)] + [tf.assign(text, [b"xyz", b""])]
    reader = saved_and_changed(saver, session8, tmp_path, [change.op for change in changes])
    assert sorted(reader.get_variable_to_shape_map()) == ["half", "matrix", "scalar", "text"]
    assert reader.get_tensor("matrix").tolist() == [[1, 1]] * 3
    assert reader.get_tensor("scalar") == 4
    assert reader.get_tensor("half").astype("float32").tolist() == [1, 1]
    assert reader.get_tensor("text").tolist() == [b"a", b"long"]


def test_parts_of_a_variable_are_saved_as_the_whole(graph, session8, tmp_path):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
        tf.get_variable("w", [4], initializer=tf.ones_initializer())
    saver = tf.train.Saver()
    session8.run(tf.global_variables_initializer())
    reader = saved_and_changed(saver, session8, tmp_path, tf.no_op())
    assert reader.get_tensor("w").tolist() == [1, 1, 1, 1]


def test_shape_of_a_variable_may_change(graph, session8, tmp_path):
    value = tf.placeholder(tf.float32, [None])
    variable = tf.Variable(value, validate_shape=False, use_resource=True)
    saver = tf.train.Saver()
    copy = SavedCopy(saver, graph)
    for length in (2, 5, 1):
        session8.run(variable.initializer, {value: np.arange(length)})
        copy.copy_from(session8)
        prefix = saver.save(copy, str(tmp_path / "model"), length, write_meta_graph=False)
        assert tf.train.load_checkpoint(prefix).get_tensor("Variable").tolist() == list(range(length))
    copy.close()


def test_error_of_a_task_comes_out_once():
    background = Background("test")
    background.wait()

    def fail():
        raise OSError("disk full")

    background.begin(fail)
    with pytest.raises(OSError, match="disk full"):
        background.begin(lambda: pytest.fail("it was begun"))
    background.wait()


def test_one_task_at_a_time():
    background, go, done = Background("test"), threading.Event(), []
    assert not background.is_busy
    background.begin(lambda: (go.wait(), done.append(1)))
    assert background.is_busy
    go.set()
    background.begin(lambda: done.append(2))
    background.wait()
    assert done == [1, 2]
    assert not background.is_busy
