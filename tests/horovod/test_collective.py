"""Collective operations that do not fit each other, and graphs in which there can be none."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import GraphBuildError

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int = 2) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory.mktemp(what), arguments={"what": what}))


@pytest.fixture
def alone() -> Any:
    hvd.init()
    yield
    hvd.shutdown()


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


@pytest.mark.usefixtures("alone")
def test_eager_operations_and_functions_are_refused() -> None:
    with pytest.raises(GraphBuildError, match=r"got no graph: expected one, as with tf.Graph\(\).as_default"):
        hvd.allreduce(tf.constant(1.0))
    with tf.Graph().as_default(), pytest.raises(GraphBuildError, match="the graph of a function"):
        tf.cond(tf.constant(True), lambda: hvd.allreduce(tf.constant(1.0)), lambda: tf.constant(2.0))
