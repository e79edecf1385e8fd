"""Flows of batches."""

import weakref

import numpy as np
import pytest

from tests.helpers.flows import Counting, Unsized
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataPointError


def first_components(ds):
    return [batch[0].tolist() for batch in ds]


@pytest.mark.parametrize("count", [5, 6, 7, 8])
@pytest.mark.parametrize("remainder", [False, True])
def test_batches_hold_all_points_in_order(count, remainder):
    ds = BatchData(Counting(count), 3, remainder=remainder)
    wanted = [list(range(k, min(k + 3, count))) for k in range(0, count, 3)]
    if not remainder:
        wanted = [batch for batch in wanted if len(batch) == 3]
    assert first_components(ds) == wanted
    assert len(ds) == len(wanted)


def test_flow_shorter_than_a_batch_is_refused_unless_the_remainder_is_wanted():
    with pytest.raises(ConfigError, match="got batch_size=8: expected at most 7"):
        BatchData(Counting(7), 8)
    assert first_components(BatchData(Counting(7), 8, remainder=True)) == [list(range(7))]
    assert first_components(BatchData(Unsized(7), 8)) == []


def test_lists_are_not_made_arrays():
    assert list(BatchData(Counting(2), 2, use_list=True)) == [[[0, 1], ["0", "1"]]]


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, None])
def test_bad_batch_size_is_refused(batch_size):
    with pytest.raises(ConfigError, match="BatchData got batch_size=.*: expected an integer"):
        BatchData(Counting(), batch_size)


def test_bad_point_is_named_by_its_index_in_the_pass():
    points = [[np.zeros(2)]] * 5 + [[np.zeros(3)]]
    with pytest.raises(DataPointError, match=r"component 0 of data point 5 has shape \(3,\)"):
        list(BatchData(DataFromList(points, shuffle=False), 2))


def test_aggregate_batch_can_be_called_alone():
    assert BatchData.aggregate_batch([[1], [2]])[0].tolist() == [1, 2]
    assert BatchData.aggregate_batch([[1], [2]], use_list=True) == [[1, 2]]


class OneBuffer(Counting):
    """Yields the same array again and again, with other content, and counts the points that were taken."""

    num_taken = 0

    def __iter__(self):
        image = np.empty((64, 64), np.uint8)
        for k in range(self.count):
            image[...] = k
            self.num_taken += 1
            yield (image, k)


def test_large_arrays_are_copied_as_they_come():
    ds = OneBuffer(5)
    batches = list(BatchData(ds, 2, remainder=True))
    assert [batch[0][:, 0, 0].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert [batch[1].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert batches[-1][0].shape == (1, 64, 64)


def test_no_point_is_taken_ahead_of_a_batch():
    ds = OneBuffer(5)
    batches = iter(BatchData(ds, 2))
    next(batches)
    assert ds.num_taken == 2


def test_batches_share_no_memory():
    first, second = BatchData(OneBuffer(4), 2)
    assert not np.shares_memory(first[0], second[0])


def test_batch_is_not_kept_while_the_next_is_gathered():
    alive = []

    def points():
        for _ in range(4):
            alive.append([memory() is not None for memory in memories])
            yield [np.zeros((64, 64), np.uint8)]

    memories = []
    for batch in map(list.copy, BatchData(DataFromGenerator(points), 2)):
        memories.append(weakref.ref(batch.pop().base))
    assert alive == [[], [], [False], [False]]
