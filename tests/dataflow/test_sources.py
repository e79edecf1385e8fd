"""Data points from a list."""

import numpy as np
import pytest

from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, InputError


def test_order_is_kept_without_shuffling_and_without_reset():
    points = [[k] for k in range(5)]
    assert list(DataFromList(points, shuffle=False)) == points


def test_shuffled_passes_are_permutations_that_differ():
    ds = DataFromList(range(50))
    ds.reset_state()
    first, second = list(ds), list(ds)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_shuffling_wants_a_reset():
    with pytest.raises(InputError, match="DataFromList needs random numbers"):
        list(DataFromList([1, 2]))


def test_array_gives_its_rows():
    rows = list(DataFromList(np.arange(6).reshape(3, 2), shuffle=False))
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("lst", [iter([1]), {1, 2}, 3])
def test_what_is_no_sequence_is_refused(lst):
    with pytest.raises(ConfigError, match="wanted a sequence"):
        DataFromList(lst)
