"""Reductions of two and three workers against numpy, and workers that have joined."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.horovod.reductions import reduce_operation

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int = 2) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory.mktemp(what), arguments={"what": what}))


@pytest.fixture(scope="module", params=[2, 3])
def reductions(request: Any, tmp_path_factory: Any) -> list[Any]:
    return of_workers(tmp_path_factory, "reductions", request.param)


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


def test_workers_that_have_joined_reduce_zeros(tmp_path_factory: Any) -> None:
    found = of_workers(tmp_path_factory, "joined", 3)
    assert [len(each["sums"]) for each in found] == [2, 3, 4]
    # All of three, then of two, then of one.
    assert found[2]["sums"] == [[3.0, 3.0], [6.0, 3.0], [6.0, 3.0], [4.0, 2.0]]
    assert [each["last"] for each in found] == [2, 2, 2]
    assert [each["after"] for each in found] == [[3.0, 3.0]] * 3


def test_a_worker_cannot_join_others_that_sum_several_steps(tmp_path: Any) -> None:
    first, second = run_workers(RUN, 2, tmp_path, arguments={"what": "joined_in_passes"})
    assert "expected reductions that this worker's graph has too, and no backward_passes_per_step" in first.value
    assert "worker 0 failed: CollectiveError: hvd.join() got gradients" in second.value


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
