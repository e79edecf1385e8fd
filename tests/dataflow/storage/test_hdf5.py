"""Arrays in HDF5 files as data points."""

import pickle

import h5py
import numpy as np
import pytest

from tests.helpers.stored_points import assert_same, flip, read_all
from tpack.dataflow.storage.hdf5 import HDF5Data
from tpack.errors import ConfigError, InputError

IMAGES = np.arange(42, dtype="u1").reshape(7, 2, 3)
LABELS = np.arange(7)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        file["train/images"] = IMAGES
        file["train/labels"] = LABELS
        file["short"] = LABELS[:5]
        file["number"] = 3
    return path


WANTED = [[IMAGES[k], LABELS[k]] for k in range(7)]


def test_entries_are_zipped(path):
    ds = HDF5Data(str(path), ["train/images", "train/labels"], shuffle=False)
    assert len(ds) == 7
    assert_same(read_all(ds), WANTED)
    assert_same([ds._read(3)], WANTED[3:4])
    assert_same(read_all(pickle.loads(pickle.dumps(ds))), WANTED)


def test_entries_are_shuffled_together_in_two_passes_at_a_time(path):
    ds = HDF5Data(path, ["train/images", "train/labels"])
    ds.reset_state()
    for points in zip(*zip(ds, ds, strict=True), strict=True):
        assert_same(sorted(points, key=lambda point: point[1]), WANTED)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["none"], "has nothing at 'none': expected an array"),
        (["train"], "has a Group without a length at 'train'"),
        (["number"], "has a Dataset without a length at 'number'"),
        (["train/labels", "short"], r"of lengths \[7, 5\]: expected the same length"),
    ],
)
def test_what_is_no_array_is_refused(path, paths, message):
    with pytest.raises(InputError, match=rf"some.h5.* {message}"):
        HDF5Data(path, paths)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], " with 0 entries: expected at least 1"),
        ("train/labels", "='train/labels': expected a list of text"),
        (None, "=None: expected a list of text"),
    ],
)
def test_bad_paths_are_refused(path, paths, message):
    with pytest.raises(ConfigError, match=f"HDF5Data got data_paths{message}"):
        HDF5Data(path, paths)


def test_missing_and_other_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"the HDF5 file .*none.h5 cannot be read"):
        HDF5Data(tmp_path / "none.h5", ["a"])
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(InputError, match=r"the HDF5 file .*text.h5 cannot be read"):
        HDF5Data(tmp_path / "text.h5", ["a"])


def test_damaged_piece_names_entry_and_array(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=IMAGES, chunks=(1, 2, 3), fletcher32=True)
    flip(path, path.read_bytes().index(IMAGES[4].tobytes()) + 2)
    with pytest.raises(InputError, match=r"entry 4 of /a in .*a\.h5 cannot be read"):
        read_all(HDF5Data(path, ["a"], shuffle=False))
