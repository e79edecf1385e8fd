"""The way that is chosen to read a foreign iterable."""

import pytest

from tests.helpers.foreign import FaceDataset, GrainDataset, Loader, MapStyle, StatefulLoader
from tpack.dataflow.adapters import IteratorReader, LoaderReader, Reader, freeze_state, is_indexed, open_reader
from tpack.errors import InputError


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Loader, Reader),
        (MapStyle, Reader),
        (GrainDataset, IteratorReader),
        (StatefulLoader, LoaderReader),
        (FaceDataset, LoaderReader),
        (lambda: [1, 2], Reader),
    ],
)
def test_object_is_read_as_suits_it(make, kind):
    assert type(open_reader(None, make(), 0, None)) is kind


def test_points_that_can_be_indexed_are_not_dropped_one_by_one():
    data = MapStyle()
    points = list(open_reader(None, data, 5, None).points)
    assert [point["name"] for point in points] == ["5", "6"]
    assert data.read == [5, 6]


def test_other_points_are_dropped():
    assert [number for _, number in open_reader(None, Loader(), 5, None).points] == [5, 6]
    with pytest.raises(InputError, match="str was to go on after 9 data points and has only 7"):
        open_reader("owner", Loader(), 9, None)


def test_iterator_goes_to_its_own_position():
    reader = open_reader(None, GrainDataset(), 0, freeze_state(None, {"next_index": 5}))
    assert [point["x"] for point in reader.points] == [6, 7]
    assert reader.own_at_end() is None


def test_iterable_that_stays_where_it_is_sent_is_copied():
    data = FaceDataset()
    reader = open_reader(None, data, 0, freeze_state(None, {"index": 5}))
    assert [point["x"] for point in reader.points] == [6, 7]
    assert data.start == {"index": 0}
    assert reader.own() == reader.own_at_end() == freeze_state(None, {"index": 7})


@pytest.mark.parametrize(
    ("obj", "expected"), [([1], True), ("a", True), (MapStyle(), True), (Loader(), False), ({1: 2}, False), (3, False)]
)
def test_is_indexed_looks_at_what_an_object_can_do(obj, expected):
    assert is_indexed(obj) is expected
