"""Flows of batches."""

import numpy as np
import pytest

from tests.helpers.flows import Counting, Unsized
from tpack.dataflow.batch import BatchData
from tpack.dataflow.from_list import DataFromList
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
    with pytest.raises(ConfigError, match="got batch_size=8 and a flow of 7 data points: it would yield nothing"):
        BatchData(Counting(7), 8)
    assert first_components(BatchData(Counting(7), 8, remainder=True)) == [list(range(7))]
    assert first_components(BatchData(Unsized(7), 8)) == []


def test_lists_are_not_made_arrays():
    assert list(BatchData(Counting(2), 2, use_list=True)) == [[[0, 1], ["0", "1"]]]


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, None])
def test_bad_batch_size_is_refused(batch_size):
    with pytest.raises(ConfigError, match="BatchData got batch_size=.*: wanted an integer of at least 1"):
        BatchData(Counting(), batch_size)


def test_bad_point_is_named_by_its_index_in_the_pass():
    points = [[np.zeros(2)]] * 5 + [[np.zeros(3)]]
    with pytest.raises(DataPointError, match=r"component 0 of data point 5 has shape \(3,\)"):
        list(BatchData(DataFromList(points, shuffle=False), 2))


def test_aggregate_batch_can_be_called_alone():
    assert BatchData.aggregate_batch([[1], [2]])[0].tolist() == [1, 2]
    assert BatchData.aggregate_batch([[1], [2]], use_list=True) == [[1, 2]]
