"""How foreign iterables are read from a place on, and the positions they tell."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.foreign import FaceDataset, GrainDataset, Loader, MapStyle, StatefulLoader, Tensor
from tpack.dataflow.adapters import (
    _freeze_state,
    _is_indexed,
    _IteratorReader,
    _LoaderReader,
    _open_reader,
    _Reader,
    _thaw_state,
)
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import InputError
from tpack.utils import serialize


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Loader, _Reader),
        (MapStyle, _Reader),
        (GrainDataset, _IteratorReader),
        (StatefulLoader, _LoaderReader),
        (FaceDataset, _LoaderReader),
        (lambda: [1, 2], _Reader),
    ],
)
def test_object_is_read_as_suits_it(make, kind):
    assert type(_open_reader(None, make(), 0, None)) is kind


def test_points_that_can_be_indexed_are_not_dropped_one_by_one():
    data = MapStyle()
    points = list(_open_reader(None, data, 5, None).points)
    assert [point["name"] for point in points] == ["5", "6"]
    assert data.read == [5, 6]


def test_other_points_are_dropped():
    assert [number for _, number in _open_reader(None, Loader(), 5, None).points] == [5, 6]
    with pytest.raises(InputError, match="str got a position after 9 data points and has only 7"):
        _open_reader("owner", Loader(), 9, None)


def test_iterator_goes_to_its_own_position():
    reader = _open_reader(None, GrainDataset(), 0, _freeze_state(None, {"next_index": 5}))
    assert [point["x"] for point in reader.points] == [6, 7]
    assert reader.own_at_end() is None


def test_iterable_that_stays_where_it_is_sent_is_copied():
    data = FaceDataset()
    reader = _open_reader(None, data, 0, _freeze_state(None, {"index": 5}))
    assert [point["x"] for point in reader.points] == [6, 7]
    assert data.start == {"index": 0}
    assert reader.own() == reader.own_at_end() == _freeze_state(None, {"index": 7})


@pytest.mark.parametrize(
    ("obj", "expected"), [([1], True), ("a", True), (MapStyle(), True), (Loader(), False), ({1: 2}, False), (3, False)]
)
def test_is_indexed_looks_at_what_an_object_can_do(obj, expected):
    assert _is_indexed(obj) is expected


@pytest.mark.parametrize(
    "state",
    [None, 3, "text", b"bytes", [1, [2]], (1, (2, [3])), {"a": {"b": (None, 1.5)}, 3: [], (1, 2): True}, {}],
    ids=repr,
)
def test_state_comes_back_as_it_was(state):
    assert _thaw_state(None, _freeze_state(None, state)) == state


def test_arrays_come_back():
    found = _thaw_state(None, _freeze_state(None, {"keys": np.arange(3, dtype="u4")}))["keys"]
    assert found.dtype == np.uint32
    assert found.tolist() == [0, 1, 2]


def test_tensor_comes_back_where_its_library_is_imported(monkeypatch):
    frozen = _freeze_state(None, [Tensor([1, 2])])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=lambda array: ("tensor of", array.tolist())))
    assert _thaw_state(None, frozen) == [("tensor of", [1, 2])]
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(
        InputError,
        match="the saved position of a NoneType is invalid: it has a tensor of PyTorch, which is not imported",
    ):
        _thaw_state(None, frozen)


def test_what_cannot_be_kept_is_named():
    with pytest.raises(
        StatelessError,
        match=r"the position of a str cannot be saved: an object of type list cannot be serialized: an object of",
    ):
        _freeze_state("owner", {"a": object()})


@pytest.mark.parametrize("frozen", [None, {}, b"", b"nonsense", serialize.dumps(3), serialize.dumps(["list", 3])])
def test_something_else_is_refused(frozen):
    with pytest.raises(InputError, match="the saved position of a str is"):
        _thaw_state("owner", frozen)
