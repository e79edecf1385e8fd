"""Data points in npz files."""

import pickle

import numpy as np
import pytest

from tests.helpers.flows import Broken
from tests.helpers.stored_points import assert_same, flip, flow_of, make_points, read_all
from tpack.dataflow.storage.npz import NumpySerializer
from tpack.errors import InputError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "points.npz"
    NumpySerializer.save(flow_of(make_points()), path)
    return path


def test_points_come_back(path):
    ds = NumpySerializer.load(str(path), shuffle=False)
    assert len(ds) == 7
    assert_same(read_all(ds), make_points())
    assert_same(read_all(pickle.loads(pickle.dumps(ds))), make_points())


def test_points_come_back_shuffled_and_as_new_objects(path):
    ds = NumpySerializer.load(path)
    for _ in range(2):
        points = sorted(read_all(ds), key=lambda point: point[1])
        assert_same(points, make_points())
        points[0][0][...] = 0


def test_name_without_suffix_stays_as_it_is(tmp_path):
    NumpySerializer.save(flow_of([]), tmp_path / "points")
    assert [file.name for file in tmp_path.iterdir()] == ["points"]
    assert read_all(NumpySerializer.load(tmp_path / "points")) == []


def test_failing_save_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    with pytest.raises(OSError, match="the disk is gone"):
        NumpySerializer.save(Broken(), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_flipped_bits_are_noticed(path):
    data = path.read_bytes()
    noticed = 0
    for place in range(60, len(data) // 2, 7):
        flip(path, place, 16)
        with pytest.raises(InputError, match="points.npz"):
            read_all(NumpySerializer.load(path))
        noticed += 1
        path.write_bytes(data)
    assert noticed > 5


def test_archive_of_an_unknown_version_is_refused(path):
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    data[directory + 6] = 173
    path.write_bytes(data)
    with pytest.raises(
        InputError, match="cannot read arrays from .*points.npz: NotImplementedError: zip file version 17.3"
    ):
        NumpySerializer.load(path)


def test_cut_off_and_missing_files_are_named(path):
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"cannot read arrays from .*points.npz: BadZipFile"):
        NumpySerializer.load(path)
    with pytest.raises(InputError, match=r"cannot read arrays from .*none.npz: .*No such file"):
        NumpySerializer.load(path.parent / "none.npz")


def test_file_of_tensorpack_is_not_unpickled(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", buffer=np.array([[1], [2, 3]], object))
    with pytest.raises(InputError, match=r"cannot read arrays from .*: ValueError: .*allow_pickle"):
        NumpySerializer.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "ends", [[3, 2, 4], [-1, 4], [[4]], [1.0, 4.0], [3]], ids=["back", "negative", "matrix", "floats", "short"]
)
def test_places_that_make_no_sense_are_refused(tmp_path, ends):
    np.savez(tmp_path / "a.npz", buffer=np.zeros(4, np.uint8), ends=ends)
    with pytest.raises(
        InputError, match=r"a\.npz has data points that do not fill its buffer: expected a file of NumpySerializer"
    ):
        NumpySerializer.load(tmp_path / "a.npz")


def test_damaged_point_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", buffer=np.array([1, 0xC1], np.uint8), ends=[1, 2])
    with pytest.raises(InputError, match=r"data point 1 of the file .*a.npz is damaged"):
        read_all(NumpySerializer.load(tmp_path / "a.npz", shuffle=False))
