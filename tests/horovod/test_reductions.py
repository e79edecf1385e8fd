"""Collective operations of two and three workers against numpy, and those that do not fit each other."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError, GraphBuildError
from tpack.horovod.reductions import reduce_operation

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int = 2) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory.mktemp(what), arguments={"what": what}))


@pytest.fixture(scope="module", params=[2, 3])
def reductions(request: Any, tmp_path_factory: Any) -> list[Any]:
    return of_workers(tmp_path_factory, "reductions", request.param)


@pytest.fixture(scope="module", params=[2, 3])
def movements(request: Any, tmp_path_factory: Any) -> list[Any]:
    return of_workers(tmp_path_factory, "movements", request.param)


def test_reductions_are_those_of_numpy(reductions: list[Any]) -> None:
    size = len(reductions)
    own = np.array([[1.0, 2.0, -3.0]]) * np.arange(1, size + 1)[:, None]
    whole = np.array([[2, 5]]) + np.arange(size)[:, None]
    expected = {
        "mean": own.mean(0),
        "older": own.sum(0),
        "sum": own.sum(0),
        "min": own.min(0),
        "max": own.max(0),
        "product": own.prod(0),
        "cut": whole.sum(0) // size,
        "scaled": own.sum(0) * 2,
        "unknown": own.mean(0),
        "gradient of mean": np.ones(3),
        "gradient of sum": np.full(3, size),
    }
    for found in reductions:
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(found["fp16"], (own / 3).mean(0), rtol=1e-3)
        # Parallel gradients give their mean.
        np.testing.assert_allclose(found["adasum"] / own[0], (found["adasum"] / own[0])[0], rtol=1e-5)
        np.testing.assert_allclose(found["values"][:, 1], np.arange(1, size + 1) / size, rtol=1e-6)
        np.testing.assert_array_equal(found["indices"], np.arange(size))
        np.testing.assert_array_equal(found["grouped"][0], own.sum(0))
        np.testing.assert_array_equal(found["grouped"][1], whole.sum(0))
        np.testing.assert_array_equal(found["grouped"][2][:, 0], np.arange(1, size + 1))
        assert found["cut"].dtype == np.int32


def test_all_workers_have_the_same_bits(reductions: list[Any]) -> None:
    for found in reductions[1:]:
        for name in ("mean", "fp16", "adasum", "unknown"):
            np.testing.assert_array_equal(found[name], reductions[0][name], err_msg=name)


def test_rows_move_as_in_numpy(movements: list[Any]) -> None:
    size = len(movements)
    gathered = np.concatenate([np.full([rank + 1, 2], rank) for rank in range(size)])
    total = np.arange(10.0).reshape(5, 2) * sum(range(1, size + 1))
    ends = np.cumsum([5 // size + (rank < 5 % size) for rank in range(size)])
    dealt = np.arange(1.0, size * (size + 1) // 2 + 1)
    parts = np.split(dealt, np.cumsum(range(1, size))) if size > 1 else [dealt]
    for rank, found in enumerate(movements):
        share = np.split(total, ends[:-1])[rank]
        np.testing.assert_array_equal(found["gathered"], gathered)
        np.testing.assert_array_equal(found["several"][1], gathered + 1)
        np.testing.assert_array_equal(found["sent"], [1, 2])
        np.testing.assert_array_equal(found["even"], rank + 10 * np.arange(size))
        np.testing.assert_array_equal(found["share"], share)
        np.testing.assert_allclose(found["mean of share"], share / size, rtol=1e-6)
        np.testing.assert_array_equal(found["shares"][1], share * 2)
        np.testing.assert_array_equal(found["counts"], np.full(size, rank + 1))
        mine = np.split(dealt, np.cumsum(range(1, size + 1))[:-1])[rank]
        np.testing.assert_array_equal(found["dealt"], np.concatenate([mine + 100 * other for other in range(size)]))
        assert [text.decode() for text in found["texts"]] == [f"rank {each}" for each in range(size)]
        start = rank * (rank + 1)
        weights = np.arange(1.0, size * (size + 1) + 1).reshape(-1, 2)[start // 2 : start // 2 + rank + 1]
        np.testing.assert_allclose(found["gradient of gathered"], weights, rtol=1e-6)
        np.testing.assert_array_equal(found["gradient of share"], np.full([5, 2], size))
    assert len(parts) == size


def test_what_does_not_fit_is_an_error_that_names_ranks_and_operations(tmp_path_factory: Any) -> None:
    for found in of_workers(tmp_path_factory, "differences"):
        assert "shape: allreduce float32 (2,) Average in worker 0, allreduce float32 (3,)" in found["shape"]
        assert "allreduce float64 (2,) Average in worker 0, allreduce float32" in found["dtype"]
        assert "x: allgather float32 rows of () in worker 0, allreduce" in found["kind"]
        assert "from 0 in worker 0, broadcast float32 (2,) from 1 in worker 1" in found["root"]
        assert "name0: allreduce float32 (2,) Average in worker 0, nothing in worker 1" in found["name"]
        assert "v0 float32 () in worker 0" in found["variables"]
        assert "allreduce unknown: worker" in found["unknown shape"]
        assert "root_rank=5: expected one of the ranks [0, 1]" in found["root that is none"]
        assert "alltoall got 3 rows for 2 workers: expected a multiple" in found["rows"]
        assert "a scalar: expected rows" in found["scalar"]
        assert found["another order"] == [0.0, 2.0]


def test_workers_that_have_joined_reduce_zeros(tmp_path_factory: Any) -> None:
    found = of_workers(tmp_path_factory, "joined", 3)
    assert [len(each["sums"]) for each in found] == [2, 3, 4]
    # All of three, then of two, then of one.
    assert found[2]["sums"] == [[3.0, 3.0], [6.0, 3.0], [6.0, 3.0], [4.0, 2.0]]
    assert [each["last"] for each in found] == [2, 2, 2]
    assert [each["after"] for each in found] == [[3.0, 3.0]] * 3


@pytest.fixture
def alone() -> Any:
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.usefixtures("alone", "graph")
def test_alone_every_operation_gives_what_it_gets() -> None:
    own = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    built = [
        hvd.allreduce(own),
        hvd.allreduce(own, op=hvd.Product, name="product"),
        hvd.allgather(own),
        hvd.broadcast(own, 0),
        hvd.alltoall(own),
        hvd.reducescatter(own),
        *hvd.grouped_allreduce([own, own * 1]),
    ]
    with tf.Session() as session:
        for value in session.run(built):
            np.testing.assert_array_equal(value, [[1, 2], [3, 4]])
        assert session.run(hvd.join()) == 0


@pytest.mark.usefixtures("alone")
def test_eager_operations_and_functions_are_refused() -> None:
    with pytest.raises(GraphBuildError, match=r"got no graph: expected one, as with tf.Graph\(\).as_default"):
        hvd.allreduce(tf.constant(1.0))
    with tf.Graph().as_default(), pytest.raises(GraphBuildError, match="the graph of a function"):
        tf.cond(tf.constant(True), lambda: hvd.allreduce(tf.constant(1.0)), lambda: tf.constant(2.0))


@pytest.mark.usefixtures("alone", "graph")
def test_reductions_of_slices_are_means_and_sums() -> None:
    rows = tf.IndexedSlices(tf.ones([1, 2]), [0], [3, 2])
    with pytest.raises(NotImplementedError, match="op=Min: expected Average or Sum"):
        hvd.allreduce(rows, op=hvd.Min)
    with pytest.raises(NotImplementedError, match="a factor"):
        hvd.allreduce(rows, prescale_factor=2.0)
    with pytest.raises(NotImplementedError, match="expected a dense tensor"):
        hvd.reducescatter(rows)


def test_the_older_argument_says_mean_or_sum() -> None:
    assert reduce_operation(None, None) is hvd.Average
    assert reduce_operation(None, False) is hvd.Sum
    with pytest.raises(ConfigError, match="expected one of them; use op="):
        reduce_operation(hvd.Sum, True)
    with pytest.raises(ConfigError, match=r"expected hvd.Average, Sum"):
        reduce_operation("sum", None)


@pytest.mark.usefixtures("alone", "graph")
def test_splits_are_integers_that_deal_out_all_rows() -> None:
    with pytest.raises(ConfigError, match="expected 1 integers"):
        hvd.alltoall(tf.zeros([3]), splits=[1.5])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"splits=\[2\]: expected numbers that add up to 3 rows"):
        hvd.alltoall(tf.zeros([3]), splits=[2])
    rows = tf.placeholder_with_default(tf.zeros([3]), [None])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="alltoall"):
        session.run(hvd.alltoall(rows, splits=[2])[0])
