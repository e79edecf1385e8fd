"""Files of data sets: found, checked and read."""

import gzip
import sys

import numpy as np
import pytest
import scipy.io

from tpack.dataflow.dataset import files
from tpack.dataflow.dataset.files import load_mat
from tpack.errors import ConfigError, DependencyError, InputError
from tpack.utils.fs import get_dataset_path


def test_directory_is_the_given_one_or_has_its_own_place(tmp_path, monkeypatch):
    assert files.data_dir(tmp_path / "x", "mnist_data") == str(tmp_path / "x")
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path))
    assert files.data_dir(None, "mnist_data") == get_dataset_path("mnist_data") == str(tmp_path / "mnist_data")


def test_first_file_that_is_there_is_taken(tmp_path):
    (tmp_path / "b").touch()
    assert files.find_file(str(tmp_path), ["a", "b"], "nowhere") == str(tmp_path / "b")
    (tmp_path / "a").touch()
    assert files.find_file(str(tmp_path), ["a", "b"], "nowhere") == str(tmp_path / "a")


def test_missing_file_says_where_and_whence(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path} has no a.gz or a: get the files from https://a.b; nothing"):
        files.find_file(str(tmp_path), ["a.gz", "a"], "https://a.b")


def test_name_is_one_of_those_allowed():
    assert files.check_name(object(), "train", ("train", "test")) == "train"
    with pytest.raises(ConfigError, match="object got name='val': expected one of 'train', 'test'"):
        files.check_name(object(), "val", ("train", "test"))


def test_bytes_are_decompressed(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"content"))
    (tmp_path / "a").write_bytes(b"content")
    for name in ("a", "a.gz"):
        assert files.read_bytes(str(tmp_path / name)) == b"content"
        assert files.read_bytes(str(tmp_path / name), 7) == b"content"


@pytest.mark.parametrize(("size", "found"), [(6, "more than 6"), (8, "7")])
def test_other_number_of_bytes_is_refused(tmp_path, size, found):
    (tmp_path / "a").write_bytes(b"content")
    with pytest.raises(InputError, match=f"a has {found} bytes: expected {size}; it is damaged or another file"):
        files.read_bytes(str(tmp_path / "a"), size)


def test_more_than_wanted_is_not_decompressed(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(10**8), compresslevel=1)[:50000])
    with pytest.raises(InputError, match="has more than 9 bytes: expected"):
        files.read_bytes(str(tmp_path / "a.gz"), 9)


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"content" * 99)[:-9], gzip.compress(b"a" * 99)[:20] + b"\xff" * 30],
    # Compressed bytes hold the time of day, so they cannot name a test.
    ids=["no gzip", "cut off", "overwritten"],
)
def test_damaged_compression_is_refused(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.gz cannot be read: "):
        files.read_bytes(str(tmp_path / "a.gz"))


def test_lines_are_stripped_and_empty_ones_left_out(tmp_path):
    (tmp_path / "a").write_text("one \n\n two\r\n")
    assert files.read_lines(str(tmp_path / "a")) == ["one", "two"]
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="a cannot be read as text"):
        files.read_lines(str(tmp_path / "a"))


@pytest.mark.parametrize(("images", "labels"), [([1], []), ([], [])])
def test_as_many_labels_as_images_are_wanted(images, labels):
    files.check_same_length("i", [1, 2], "l", [1, 2])
    with pytest.raises(InputError, match=f"i has {len(images)} images and l {len(labels)} labels"):
        files.check_same_length("i", images, "l", labels)


@pytest.mark.parametrize("compressed", [True, False])
def test_variables_come_back_in_order(compressed, tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.eye(2), "y": np.zeros((1, 3)), "z": 1}, do_compression=compressed)
    y, x = load_mat(str(tmp_path / "a.mat"), "y", "x")
    assert (y.shape, x.tolist()) == ((1, 3), [[1, 0], [0, 1]])


def test_missing_variable_is_named(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": 1})
    with pytest.raises(InputError, match=r"a\.mat has no variable y, z: it is damaged or another file"):
        load_mat(str(tmp_path / "a.mat"), "x", "y", "z")


def test_damaged_file_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.arange(1000)})
    content = (tmp_path / "a.mat").read_bytes()
    for damaged in (b"", b"no matlab", content[:500]):
        (tmp_path / "a.mat").write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.mat cannot be read as a MATLAB file"):
            load_mat(str(tmp_path / "a.mat"), "x")


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DependencyError, match=r"'scipy\.io'.*tpack\[examples\]"):
        load_mat("a.mat", "x")
