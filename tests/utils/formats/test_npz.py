"""Arrays in archives come back as they were, or the archive is refused."""

import os
import zipfile

import numpy as np
import pytest

from tpack.errors import InputError
from tpack.utils.formats.npz import read_npz

ARRAYS = {"a/b": np.arange(6).reshape(2, 3), "scalar": np.float32(3)}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back(tmp_path, save):
    save(tmp_path / "file.npz", **ARRAYS)
    found = read_npz(tmp_path / "file.npz")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_no_changed_byte_leaves_an_array_out_or_changes_one(tmp_path):
    path = tmp_path / "file.npz"
    np.savez(path, **ARRAYS)
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        for value in {0, 255, whole[place] ^ 4} - {whole[place]}:
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                found = read_npz(path)
            except InputError:
                refused += 1
                continue
            # An archive says when a file was written, and for which system.
            assert {name: array.tolist() for name, array in found.items()} == {
                name: array.tolist() for name, array in ARRAYS.items()
            }
    assert refused > len(whole)


@pytest.mark.parametrize("size", [0, 10, 22, 200, -22, -1])
def test_cut_off_file_is_refused(tmp_path, size):
    path = tmp_path / "file.npz"
    np.savez(path, **ARRAYS)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"cannot read arrays from .*file\.npz: "):
        read_npz(path)


def test_what_follows_an_array_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "file.npz", "w") as archive:
        archive.writestr("a.npy", (tmp_path / "one.npy").read_bytes() + b"more")
    with pytest.raises(InputError, match="a.npy is longer than its array"):
        read_npz(tmp_path / "file.npz")


def test_what_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "file.npz", "w") as archive:
        archive.writestr("a.npy", b"text")
    with pytest.raises(InputError, match="ValueError: "):
        read_npz(tmp_path / "file.npz")


def test_one_array_and_objects_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(InputError, match="ValueError: it holds one array without a name"):
        read_npz(tmp_path / "one.npy")
    np.savez(tmp_path / "objects.npz", a=np.array([object()]))
    with pytest.raises(InputError, match="ValueError: .*allow_pickle"):
        read_npz(tmp_path / "objects.npz")


def test_comment_at_the_end_is_refused(tmp_path):
    np.savez(tmp_path / "file.npz", **ARRAYS)
    with zipfile.ZipFile(tmp_path / "file.npz", "a") as archive:
        archive.comment = b"a comment"
    with pytest.raises(InputError, match="does not end as archives end that have no comment"):
        read_npz(tmp_path / "file.npz")


@pytest.mark.parametrize("name", ["../w", "/w", "a/../w", "C:/w", "a\\w"])
def test_name_that_leads_out_of_a_directory_is_refused(tmp_path, name):
    np.savez(tmp_path / "file.npz", **{name: np.zeros(1)})
    with pytest.raises(InputError, match=r"file\.npz got name="):
        read_npz(tmp_path / "file.npz")


def test_names_of_variables_are_read(tmp_path):
    arrays = {name: np.zeros(1) for name in ("w:0", "a/b:0", "a//b", "scope/./w")}
    np.savez(tmp_path / "file.npz", **arrays)
    assert read_npz(tmp_path / "file.npz").keys() == arrays.keys()


def test_arrays_that_are_too_large_are_refused_unless_the_limit_is_raised(tmp_path):
    path, zeros = tmp_path / "file.npz", np.zeros(1 << 20, np.uint8)
    np.savez_compressed(path, a=zeros, b=zeros)
    message = r"file\.npz has 2097408 bytes: expected at most 2097407; use max_bytes=2097408"
    with pytest.raises(InputError, match=message):
        read_npz(path, max_bytes=2097407)
    assert read_npz(path, max_bytes=2097408)["b"].size == zeros.size
    # Without compression a file has what it is large.
    np.savez(path, a=zeros)
    assert read_npz(path, max_bytes=1)["a"].size == zeros.size


def test_members_that_overlap_count_as_often_as_they_are_there(tmp_path):
    path, zeros = tmp_path / "file.npz", np.zeros(1 << 20, np.uint8)
    np.savez(path, a=zeros, b=zeros)
    content = path.read_bytes()
    place = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 1)
    # The second member begins where the first does.
    path.write_bytes(content[: place + 42] + bytes(4) + content[place + 46 :])
    with pytest.raises(InputError):
        read_npz(path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_and_a_device_are_refused(tmp_path, kind):
    path = tmp_path / "file.npz"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"file\.npz is a pipe, a device or the like: expected a regular file"):
        read_npz(path)
