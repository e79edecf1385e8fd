"""Mapping and batching in processes: arguments, and what batches are made of."""

import numpy as np
import pytest

from tests.helpers.flows import Counting, same
from tests.helpers.worker_functions import Images, wait
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_map import MultiProcessMapAndBatchData
from tpack.errors import ConfigError, DataWorkerError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, same, 3), "num_proc=0"),
        ((1, None, 3), "map_func=None"),
        ((1, same, 0), "batch_size=0"),
        ((2, same, 3, 5), r"buffer_size=5: expected at least num_proc \* batch_size = 6"),
        ((1, same, 8), "and 7 data points: expected at"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        MultiProcessMapAndBatchData(Counting(), *arguments)


def test_length_counts_whole_batches():
    assert len(MultiProcessMapAndBatchData(Counting(11), 1, same, 3)) == 3
    assert MultiProcessMapAndBatchData(Counting(11), 2, same, 3).buffer_size == 12


def test_one_process_does_what_map_and_batch_do():
    images = Images(23, 40_000)
    wanted = list(BatchData(MapData(images, same), 4))
    ds = MultiProcessMapAndBatchData(images, 1, same, 4)
    ds.reset_state()
    for _ in range(2):
        found = list(ds)
        assert len(found) == len(wanted) == 5
        for batch, expected in zip(found, wanted, strict=True):
            for part, other in zip(batch, expected, strict=True):
                np.testing.assert_array_equal(part, other)
                assert part.dtype == other.dtype


def test_several_processes_make_batches_of_points_that_follow_each_other():
    ds = MultiProcessMapAndBatchData(Images(20, 40_000), 2, lambda point: point if point[1] != 5 else None, 4)
    ds.reset_state()
    for images, numbers in [*ds, *ds]:
        np.testing.assert_array_equal(images, np.repeat(numbers[:, None], 40_000, 1))
        assert 5 not in numbers
        assert len(numbers) == 4


def test_pass_after_an_exception_has_no_point_of_the_batch_that_it_happened_in():
    def fail_at_six(point):
        if point[1] == 6:
            raise OSError("gone")
        return point

    ds = MultiProcessMapAndBatchData(Images(12, 40_000), 1, fail_at_six, 4)
    ds.reset_state()
    points = iter(ds)
    assert next(points)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataWorkerError, match="OSError: gone"):
        next(points)
    # Two batches were under way.
    assert [next(iter(ds))[1].tolist() for _ in range(2)] == [[8, 9, 10, 11], [0, 1, 2, 3]]
    ds.close()


def test_flow_can_be_closed_in_the_middle_of_a_batch():
    def wait_at_six(point):
        if point[1] == 6:
            wait()
        return point

    ds = MultiProcessMapAndBatchData(Images(12, 40_000), 1, wait_at_six, 4)
    ds.reset_state()
    images, numbers = next(iter(ds))
    ds.close()
    assert numbers.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(images, np.repeat(numbers[:, None], 40_000, 1))
    with pytest.raises(DataFlowTerminated, match=r"were ended: use reset_state\(\)"):
        next(iter(ds))
