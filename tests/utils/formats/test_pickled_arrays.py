"""Pickles without code: what comes back, and what is refused."""

import datetime
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from tpack.utils.formats.pickled_arrays import is_pickle, loads

ARRAYS = [
    np.arange(6, dtype=">i4").reshape(2, 3),
    np.asfortranarray(np.random.default_rng(0).normal(size=(3, 2))),
    np.zeros((0, 2), np.float16),
    np.array(2.5 + 1j),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array([True, False]),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.dtype.str)
def test_arrays_come_back(array, protocol):
    found, again = loads(pickle.dumps([array, array], protocol))
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)
    assert found.flags.writeable
    assert found is not again


@pytest.mark.parametrize("protocol", range(6))
def test_scalars_and_plain_values_come_back(protocol):
    point = (np.float32(1.5), np.bool_(True), np.int64(3), 1 + 2j, {"a": [None, "é", b"", b"\xff"], 3: (1,)}, {4})
    if protocol < 3:
        point = point[:-1]
    found = loads(pickle.dumps(point, protocol))
    assert found == point
    assert [type(each) for each in found] == [type(each) for each in point]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (print, "it uses builtins.print"),
        (datetime.date(2026, 1, 1), "it uses datetime.date"),
        (OrderedDict(a=1), "it uses collections.OrderedDict"),
        (np.array([{}], dtype=object), "dtype 'O8'"),
        (np.zeros(1, [("a", "f4")]), "dtype 'V4'"),
        (np.dtype("f4"), "it has a dtype without an array"),
        (np.float32, "it uses numpy.float32"),
    ],
)
def test_other_objects_are_refused(value, message):
    with pytest.raises(pickle.UnpicklingError, match=message):
        loads(pickle.dumps([value]))


def test_a_pickle_is_known_by_its_first_bytes():
    assert all(is_pickle(pickle.dumps([1], protocol)) for protocol in range(2, 6))
    assert not any(map(is_pickle, (b"", b"\x80", b"\x80\x80\x80", b"\x93NUMPY")))
