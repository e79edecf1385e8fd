"""Data points in HDF5 files."""

import h5py
import numpy as np
import pytest

from tests.helpers.flows import Broken
from tests.helpers.stored_points import assert_same, flow_of, make_alike_points, read_all
from tpack.dataflow.storage.hdf5 import HDF5Serializer
from tpack.errors import ConfigError, DataPointError

PATHS = ["images", "more/labels", "weights"]


@pytest.mark.parametrize("count", [1, 256, 600])
def test_points_come_back_as_numpy_has_them(tmp_path, count):
    path = tmp_path / "points.h5"
    points = make_alike_points(count)
    HDF5Serializer.save(flow_of(points), path, PATHS)
    wanted = [[image, np.int32(k), np.float32(weight)] for image, k, weight in points]
    assert_same(read_all(HDF5Serializer.load(str(path), PATHS, shuffle=False)), wanted)
    shuffled = read_all(HDF5Serializer.load(path, PATHS))
    assert_same(sorted(shuffled, key=lambda point: point[1]), wanted)
    assert list(tmp_path.iterdir()) == [path]


def test_file_can_be_read_by_others_and_has_checksums(tmp_path):
    HDF5Serializer.save(flow_of(make_alike_points()), tmp_path / "a", PATHS)
    with h5py.File(tmp_path / "a") as file:
        assert file["images"].shape == (600, 2, 3)
        assert file["more/labels"][()].tolist() == list(range(600))
        assert file["images"].fletcher32


@pytest.mark.parametrize("name", ["empty component", "large component"])
def test_entries_of_any_size_are_written(tmp_path, name):
    entry = np.zeros((0, 3)) if name == "empty component" else np.arange(100_000.0)
    HDF5Serializer.save(flow_of([[entry]] * 3), tmp_path / "a", ["x"])
    assert_same(read_all(HDF5Serializer.load(tmp_path / "a", ["x"])), [[entry]] * 3)


@pytest.mark.parametrize(
    ("points", "paths", "error", "message"),
    [
        ([], ["x"], ConfigError, "got a flow without data points"),
        ([[1, 2]], ["x"], ConfigError, r"got data_paths=\['x'\] and data points of 2 components"),
        ([[1]], "x", ConfigError, "expected a list of one path for each"),
        ([["text"]], ["x"], DataPointError, "component for 'x' has dtype object: expected numbers"),
        ([{"a": 1}], ["x"], DataPointError, "data point 0 is a dict of 1: expected a list of components"),
        ([[np.zeros(2)]] * 300 + [[np.zeros(3)]], ["x"], DataPointError, "component 0 of data point 300 has shape"),
        (
            [[np.zeros(2)]] * 256 + [[np.zeros(3)]],
            ["x"],
            DataPointError,
            r"from data point 256 on, the component for 'x' has shape \(3,\)",
        ),
    ],
    ids=["none", "too few paths", "no list", "text", "dict", "unlike in a chunk", "unlike in the next chunk"],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(tmp_path, points, paths, error, message):
    with pytest.raises(error, match=message):
        HDF5Serializer.save(flow_of(points), tmp_path / "a", paths)
    assert list(tmp_path.iterdir()) == []


def test_failing_save_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="the disk is gone"):
        HDF5Serializer.save(Broken(), tmp_path / "a", ["x", "y"])
    assert list(tmp_path.iterdir()) == []
