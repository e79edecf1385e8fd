import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.tables.rows import RowLookUp, TableSpec, checked_ids, joined_rows
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp

ROWS, WIDTH = 11, 3
TABLE = np.random.default_rng(1).integers(-8, 8, size=(ROWS, WIDTH)) / 4.0


def exchanged(session, ids, grads, op=ReduceOp.SUM, exchange=None):
    """Return the rows of each tower of each worker, and the gradients of the rows of each, by a table in parts."""
    tasks = ["/job:localhost/task:0"] * len(ids)
    spec = TableSpec("table", ROWS, WIDTH, tf.float64)
    rows, updates = [], []
    for rank, of_towers in enumerate(ids):
        group = WorkerGroup(tasks, rank, "run")
        part = tf.Variable(TABLE[rank :: len(ids)], name=f"part{rank}", use_resource=True)
        lookup = RowLookUp(group, spec, part, 0)
        rows.append(lookup.rows_for([tf.constant(each, tf.int64) for each in of_towers]))
        given = [each if isinstance(each, tf.IndexedSlices) else tf.constant(each) for each in grads[rank]]
        own, of_all = lookup.exchange_gradients(given, exchange or Exchange())
        updates.append([own, joined_rows(group, [of_all], part.shape.as_list(), op.divisor(len(ids) * len(given)))])
    session.run(tf.global_variables_initializer())
    return session.run([rows, updates])


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("op", list(ReduceOp))
def test_rows_come_from_their_owners_and_sums_of_gradients_go_there(session8, rng, workers, op):
    ids = [[rng.integers(0, ROWS, size=size) for size in (5, 0, 9)] for _ in range(workers)]
    grads = [[rng.integers(-8, 8, size=(len(each), WIDTH)) / 4.0 for each in of_towers] for of_towers in ids]
    rows, updates = exchanged(session8, ids, grads, op)
    expected = np.zeros_like(TABLE)
    for rank in range(workers):
        for tower in range(3):
            np.testing.assert_array_equal(rows[rank][tower], TABLE[ids[rank][tower]])
            np.add.at(expected, ids[rank][tower], grads[rank][tower])
    found = np.zeros_like(TABLE)
    for rank, (own, update) in enumerate(updates):
        assert len(own) == len(np.unique(np.concatenate(ids[rank])))
        assert len(set(update.indices)) == len(update.indices)
        found[rank::workers][update.indices] = update.values
    # A mean over 9 towers is rounded, once.
    np.testing.assert_array_equal(found, expected / op.divisor(3 * workers))


def test_gradients_that_are_rows_of_rows_are_added_where_they_belong(session8):
    sliced = tf.IndexedSlices(tf.ones([2, WIDTH], tf.float64), tf.constant([1, 1]), tf.constant([2, WIDTH], tf.int64))
    _, updates = exchanged(session8, [[[4, 1]], [[1]]], [[sliced], [np.full((1, WIDTH), 0.5)]])
    (_, of_even), (_, of_odd) = updates
    np.testing.assert_array_equal(of_even.values, np.zeros([1, WIDTH]))
    np.testing.assert_array_equal(of_odd.values, np.full([1, WIDTH], 2.5))
    assert of_even.indices.tolist() == [2]
    assert of_odd.indices.tolist() == [0]


def test_gradients_of_rows_are_rounded_for_the_network_in_all_workers(session8):
    fine = np.full((1, WIDTH), 1 + 2.0**-12)
    _, updates = exchanged(session8, [[[0]], [[0]]], [[fine], [fine]], exchange=Exchange("bfloat16"))
    np.testing.assert_array_equal(updates[0][1].values, np.full((1, WIDTH), 2.0))


@pytest.mark.parametrize("bad", [-1, ROWS])
def test_ids_that_are_no_rows_fail_the_step_by_their_range(session8, bad):
    spec = TableSpec("table", ROWS, WIDTH, tf.float64)
    ids = checked_ids(spec, tf.constant([3, bad]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"ids of \\?'table\\?' from") as error:
        session8.run(ids)
    assert f"expected 0 to {ROWS - 1}" in str(error.value)
    assert str(spec) == "'table' of 11 x 3 float64"
