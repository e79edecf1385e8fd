"""LMDB files that are read: shared in a process, closed when unused, and refused when cut off."""

import gc
import os
import pickle

import lmdb
import pytest

from tpack.dataflow.storage import lmdb as lmdb_storage
from tpack.dataflow.storage.lmdb import _LmdbFile
from tpack.errors import InputError


def write(path, entries):
    env = lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 24)
    with env.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
    env.close()
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "some.lmdb", {b"%02d" % k: bytes([k]) * 5000 for k in range(20)} | {b"__keys__": b"?"})


def test_entries_are_read_without_those_that_describe_the_file(path):
    file = _LmdbFile(path)
    assert len(file) == 20
    assert file.keys() == [b"%02d" % k for k in range(20)]
    assert file.get(b"07") == bytes([7]) * 5000
    assert file.find(b"99") is None
    assert [(key, value[0]) for key, value in file.items(18)] == [(b"18", 18), (b"19", 19)]
    with pytest.raises(InputError, match=r"some.lmdb has no entry b'99'"):
        file.get(b"99")


def test_file_can_be_opened_twice_and_is_closed_after_the_last_user(path):
    before = len(lmdb_storage._opened)
    first, second = _LmdbFile(path), _LmdbFile(path)
    entries = first.items()
    next(entries)
    assert len(lmdb_storage._opened) == before + 1
    del first, second
    gc.collect()
    assert len(list(entries)) == 19
    del entries
    gc.collect()
    assert len(lmdb_storage._opened) == before


def test_file_that_was_replaced_is_opened_anew(path, tmp_path):
    old = _LmdbFile(path)
    os.replace(write(tmp_path / "new.lmdb", {b"a": b"1"}), path)
    assert (len(old), len(_LmdbFile(path))) == (20, 1)


def test_directory_stands_for_the_file_in_it(path, tmp_path):
    (tmp_path / "folder").mkdir()
    os.replace(path, tmp_path / "folder" / "data.mdb")
    assert len(_LmdbFile(tmp_path / "folder")) == 20


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], r"was cut off: it has \d+ bytes, and its pages end at byte \d+"),
        (lambda data: b"", "is damaged: it was cut off after 0 bytes"),
        (lambda data: b"not LMDB" * 4096, "is damaged: its meta pages are damaged, or of another"),
    ],
    ids=["cut", "empty", "other"],
)
def test_damaged_file_is_refused_with_its_name(path, damage, message):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=rf"the LMDB file .*some.lmdb.* {message}"):
        _LmdbFile(path)
    assert (path.stat().st_dev, path.stat().st_ino) not in lmdb_storage._opened


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.lmdb cannot be read \(opening it\): .*No such file"):
        _LmdbFile(tmp_path / "none.lmdb")


def test_damaged_page_names_the_place(path):
    data = bytearray(path.read_bytes())
    # The page with the keys: its header, which holds how much of it is used, becomes nonsense.
    start = data.index(b"07", 8192) // 4096 * 4096
    data[start + 10 : start + 16] = b"\xff" * 6
    path.write_bytes(data)
    with pytest.raises(InputError, match="some.lmdb is damaged: the header of page"):
        _LmdbFile(path)


def test_open_file_is_no_part_of_a_pickle(path):
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(_LmdbFile(path))
