import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError
from tpack.tfutils.sessinit import DictRestore, SmartInit


def table(num_parts, rows=7):
    """Make a table, in parts where there are several; return what there is of it, and a session."""
    partitioner = tf.fixed_size_partitioner(num_parts) if num_parts > 1 else None
    with tf.variable_scope("", use_resource=True):
        start = tf.random_uniform_initializer()
        whole = tf.get_variable("table", [rows, 3], initializer=start, partitioner=partitioner)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return whole, session


def value_of(whole, session):
    parts = list(whole) if hasattr(whole, "as_tensor") else [whole]
    return np.concatenate([session.run(part) for part in parts])


@pytest.mark.parametrize(("saved_in", "loaded_in"), [(1, 2), (3, 1), (3, 2)])
def test_a_table_is_restored_into_any_number_of_parts(tmp_path, saved_in, loaded_in):
    with tf.Graph().as_default():
        whole, session = table(saved_in)
        with session:
            saved = value_of(whole, session)
            path = tf.train.Saver().save(session, str(tmp_path / "model"))
    for source in (path, {"table": saved}):
        with tf.Graph().as_default():
            whole, session = table(loaded_in)
            with session:
                SmartInit(source).init(session)
                np.testing.assert_array_equal(value_of(whole, session), saved)


def test_a_part_is_restored_by_its_own_name_too_and_another_shape_is_told():
    with tf.Graph().as_default():
        whole, session = table(2)
        with session:
            DictRestore({"table/part_1": np.full((3, 3), 5.0)}).init(session)
            np.testing.assert_array_equal(value_of(whole, session)[4:], np.full((3, 3), 5.0))
            with pytest.raises(CheckpointError, match="2 value"):
                DictRestore({"table": np.zeros((8, 3))}).init(session)
