"""Batches of data points of one shape."""

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.batch import BatchDataByShape
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError, InputError

SIZES = [1, 2, 1, 3, 2, 1, 3, 1]


def flow(sizes=SIZES):
    return DataFromList([[np.full(size, k), k] for k, size in enumerate(sizes)], shuffle=False)


def test_batches_hold_points_of_one_shape_in_the_order_in_which_they_are_full():
    batches = list(BatchDataByShape(flow(), 2, 0))
    assert [labels.tolist() for _, labels in batches] == [[0, 2], [1, 4], [3, 6], [5, 7]]
    assert [images.shape for images, _ in batches] == [(2, 1), (2, 2), (2, 3), (2, 1)]


def test_points_wait_for_the_next_pass():
    ds = BatchDataByShape(flow(), 3, 0)
    assert [labels.tolist() for _, labels in ds] == [[0, 2, 5]]
    assert [labels.tolist() for _, labels in ds] == [[1, 4, 1], [7, 0, 2], [3, 6, 3]]
    ds.reset_state()
    assert [labels.tolist() for _, labels in ds] == [[0, 2, 5]]
    assert len(ds) == 8 // 3


def test_component_may_be_a_key():
    ds = BatchDataByShape(DataFromList([{"x": np.zeros(1)}, {"x": np.ones(1)}], shuffle=False), 2, "x")
    assert next(iter(ds))["x"].tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("point", "idx", "message"),
    [
        (3, 0, "data point 0 is a int: expected a list, a tuple or a dict"),
        ([1], 5, "data point 0 has no component 5 with a shape"),
        ([[[1], [1, 2]]], 0, "data point 0 has no component 0 with a shape"),
        ({"a": 1}, "b", "data point 0 has no component 'b' with a shape"),
    ],
)
def test_point_without_the_component_is_named(point, idx, message):
    with pytest.raises(DataPointError, match=message):
        list(BatchDataByShape(DataFromList([point], shuffle=False), 2, idx))


def test_bad_batch_size_is_refused():
    with pytest.raises(ConfigError, match="BatchDataByShape got batch_size=0"):
        BatchDataByShape(Counting(), 0, 0)


def test_two_passes_at_a_time_are_refused():
    ds = BatchDataByShape(flow(), 2, 0)
    points = iter(ds)
    next(points)
    with pytest.raises(InputError, match="BatchDataByShape is being iterated already"):
        next(iter(ds))
    points.close()


def test_state_of_larger_batches_is_refused():
    ds = BatchDataByShape(flow(), 3, 0)
    points = iter(ds)
    next(points)
    with pytest.raises(
        InputError,
        match="waiting data points of one shape: expected fewer than batch_size=2; use the batch size of the",
    ):
        BatchDataByShape(flow(), 2, 0).load_state_dict(ds.state_dict())
    points.close()
