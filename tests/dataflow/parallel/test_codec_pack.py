"""Small points that share a message."""

import numpy as np
import pytest

from tpack.dataflow.parallel.codec import Pack, PackLayout, unpack
from tpack.dataflow.parallel.slots import MIN_SLOT_BYTES

POINTS = {
    "list": lambda k: [np.full(8, k, np.float32), k],
    "tuple": lambda k: (np.full((2, 3), k, np.uint8), k / 2, np.float32(k)),
    "dict": lambda k: {"name": str(k), "data": b"x" * k, "is": k % 2 == 0, "none": None},
    "0-d": lambda k: [np.array(k), np.int64(k), np.datetime64(k, "D")],
    "text": lambda k: [np.array(["a", str(k % 10)]), np.str_("u")],
    "empty": lambda k: [np.zeros((0, 2)), k],
}


@pytest.fixture
def memory():
    return np.zeros(MIN_SLOT_BYTES, np.uint8)


def assert_same(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        found, wanted = list(found.values()), list(wanted.values())
    for one, other in zip(found, wanted, strict=True):
        assert type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", POINTS.values(), ids=POINTS)
def test_points_come_back_as_they_were(memory, make):
    points = [make(k) for k in range(20)]
    assert PackLayout(points[0]).takes(points[0])
    pack = Pack(PackLayout(points[0]), memory, 100)
    assert all(map(pack.add, points))
    assert pack.count == 20
    found = unpack(memory, *pack.finish())
    assert len(found) == 20
    for one, other in zip(found, points, strict=True):
        assert_same(one, other)


def test_points_may_be_changed_after_they_were_added_and_after_they_came(memory):
    array = np.zeros(3)
    pack = Pack(PackLayout([array]), memory, 100)
    for k in range(3):
        array[:] = k
        assert pack.add([array])
    found = unpack(memory, *pack.finish())
    memory[:] = 0
    found[0][0][:] = 9
    assert [point[0].tolist() for point in found] == [[9.0] * 3, [1.0] * 3, [2.0] * 3]
    assert all(point[0].base is None for point in found)


def test_dropped_points_stay_in_their_places(memory):
    pack = Pack(PackLayout([0]), memory, 100)
    points = [None, [1], None, None, [4], [5], None]
    assert all(map(pack.add, points))
    assert unpack(memory, *pack.finish()) == points


@pytest.mark.parametrize(
    "other",
    [
        [np.zeros(3), 1, 2],
        (np.zeros(3), 1),
        [np.zeros(4), 1],
        [np.zeros(3, np.float32), 1],
        [np.zeros(3), [1]],
        [np.zeros(3), 2**70],
        [1, 1],
        [np.float64(1), 1],
        {"a": np.zeros(3), "b": 1},
        [np.zeros(3), "long" * 10_000],
        None.__class__,
    ],
    ids=str,
)
def test_unlike_points_are_left_to_another_pack(memory, other):
    pack = Pack(PackLayout([np.zeros(3), 1]), memory, 100)
    assert pack.add([np.ones(3), 2])
    assert not pack.add(other)
    assert [point[1] for point in unpack(memory, *pack.finish())] == [2]


def test_dicts_with_other_keys_are_unlike(memory):
    pack = Pack(PackLayout({"a": 1}), memory, 100)
    assert pack.add({"a": 2})
    assert not pack.add({"b": 2})


ODD = [3, "text", np.zeros(3), [object()], [[1]], [np.array([None])], [np.ma.zeros(2)], [np.zeros(10_000)], [2**64]]


@pytest.mark.parametrize("point", [*ODD, [], {}], ids=range(len(ODD) + 2))
def test_some_points_are_not_for_packs(point):
    assert not PackLayout(point).takes(point)


def test_pack_is_full_after_a_number_of_points(memory):
    pack = Pack(PackLayout([1]), memory, 3)
    for k in range(3):
        assert not pack.is_full
        assert pack.add([k])
    assert pack.is_full


@pytest.mark.parametrize("point", [[np.zeros(1000)], ["x" * 4000], [b"x" * 16_000], [1.5] * 500], ids=len)
def test_full_pack_fits_into_its_slot(memory, point):
    pack = Pack(PackLayout(point), memory, 10_000)
    while not pack.is_full:
        assert pack.add(point)
    assert pack.count > 1
    found = unpack(memory, *pack.finish())
    np.testing.assert_array_equal(found[-1][0], point[0])
