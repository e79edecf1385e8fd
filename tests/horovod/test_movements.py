"""Rows and objects that move between workers, against numpy; workers that do not fit each other."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int = 2) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory.mktemp(what), arguments={"what": what}))


@pytest.fixture(scope="module", params=[2, 3])
def movements(request: Any, tmp_path_factory: Any) -> list[Any]:
    return of_workers(tmp_path_factory, "movements", request.param)


@pytest.fixture
def alone() -> Any:
    hvd.init()
    yield
    hvd.shutdown()


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


@pytest.mark.usefixtures("alone", "graph")
def test_splits_are_integers_that_deal_out_all_rows() -> None:
    with pytest.raises(ConfigError, match="expected 1 integers"):
        hvd.alltoall(tf.zeros([3]), splits=[1.5])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"splits=\[2\]: expected numbers that add up to 3 rows"):
        hvd.alltoall(tf.zeros([3]), splits=[2])
    rows = tf.placeholder_with_default(tf.zeros([3]), [None])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="alltoall"):
        session.run(hvd.alltoall(rows, splits=[2])[0])


def test_objects_arrive_in_all_workers(tmp_path: Any) -> None:
    for found in values_of(
        run_workers("tests.helpers.horovod_workers.run", 2, tmp_path, arguments={"what": "objects"})
    ):
        assert found["of all"] == [{"rank": 0, "text": ""}, {"rank": 1, "text": "x"}]
        assert found["of 1"] == ["from", 1]
        assert found["by function"] == 0


def test_alone_an_object_is_its_own() -> None:
    hvd.init()
    try:
        assert hvd.broadcast_object({"a": 1}) == {"a": 1}
        assert hvd.allgather_object("b") == ["b"]
        hvd.barrier()
    finally:
        hvd.shutdown()
