import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.multi_worker.tables import rows as rows_module
from tpack.multi_worker.tables.rows import RowShardedVariable, num_rows_of
from tpack.multi_worker.worker_group import WorkerGroup

VALUES = np.arange(14.0).reshape(7, 2)


class OneTask(WorkerGroup):
    """Workers on several CPU devices of one process, where resources of one name differ."""

    def device(self, rank=None):
        return f"/job:localhost/task:0/device:CPU:{self.rank if rank is None else rank}"


@pytest.fixture(name="whole")
def make_whole(session8):
    """A variable of three workers in one process."""
    group = OneTask(["/job:localhost/task:0"] * 3, 0, "run")
    with tf.device(group.device()), tf.container("run"):
        own = tf.Variable(np.zeros([3, 2]), name="emb", use_resource=True)
    whole = RowShardedVariable(group, own, 7)
    whole.load(VALUES, session8)
    return whole


def test_rows_are_dealt_out_in_turn():
    assert [num_rows_of(rank, 7, 3) for rank in range(3)] == [3, 2, 2]


def test_parts_are_read_and_set_as_one(whole, session8):
    np.testing.assert_array_equal(session8.run(whole), VALUES)
    np.testing.assert_array_equal(whole.eval(session8), VALUES)
    np.testing.assert_array_equal(session8.run(whole._own), VALUES[::3])
    session8.run(whole.assign(VALUES + 1))
    np.testing.assert_array_equal(session8.run(whole.read_value()), VALUES + 1)
    np.testing.assert_array_equal(session8.run(whole.sparse_read(tf.constant([6, 0, 6]))), VALUES[[6, 0, 6]] + 1)
    assert session8.run(whole.is_initialized())
    assert (whole.name, whole.op.name, whole.dtype, whole.get_shape()) == ("emb:0", "emb", tf.float64, [7, 2])
    assert repr(whole) == "<RowShardedVariable 'emb' (7, 2) float64 of 3 workers>"


def test_large_parts_are_read_in_pieces(whole, session8, monkeypatch):
    monkeypatch.setattr(rows_module, "PIECE_BYTES", 40)
    assert [start for start, _ in whole.components[0].pieces()] == [0, 2]
    np.testing.assert_array_equal(session8.run(whole.read_value()), VALUES)


def test_a_saver_saves_one_variable_and_restores_its_parts(whole, session8, tmp_path):
    saver = tf.train.Saver([whole])
    path = saver.save(session8, str(tmp_path / "model"))
    np.testing.assert_array_equal(tf.train.load_checkpoint(path).get_tensor("emb"), VALUES)
    whole.load(np.zeros([7, 2]), session8)
    saver.restore(session8, path)
    np.testing.assert_array_equal(session8.run(whole), VALUES)
