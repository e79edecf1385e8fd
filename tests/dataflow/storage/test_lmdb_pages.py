"""The pages of an LMDB file are right, or the library does not get to see it."""

import os
import random

import lmdb
import numpy as np
import pytest

from tests.helpers.guarded import guarded
from tpack.dataflow.storage import lmdb_pages
from tpack.dataflow.storage.lmdb import LMDBData
from tpack.dataflow.storage.lmdb_pages import check_pages
from tpack.errors import InputError

PAGE = 4096


def write(path, sizes, *, compact=False, inner=False):
    """Write an entry of each size under its number, delete and replace some, and return the path."""
    rng = np.random.RandomState(3)
    env = lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 26, max_dbs=1)
    database = env.open_db(b"inner") if inner else None
    with env.begin(write=True) as transaction:
        for index in rng.permutation(len(sizes)):
            transaction.put(b"%06d" % index, rng.bytes(sizes[index]))
    with env.begin(write=True) as transaction:
        for index in range(0, len(sizes), 3):
            transaction.delete(b"%06d" % index)
        for index in range(0, len(sizes), 7):
            transaction.put(b"%06d" % index, rng.bytes(rng.randint(9000)))
        if inner:
            transaction.put(b"a", b"b", db=database)
    if compact:
        env.copy(f"{path}.compact", compact=True)
    env.close()
    if compact:
        os.replace(f"{path}.compact", path)
    return str(path)


KINDS = {"none": [], "one": [5], "small": [20] * 4000, "large": [100_000] * 30, "mixed": list(range(0, 9000, 17))}


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("sizes", KINDS.values(), ids=KINDS)
def test_files_that_the_library_wrote_are_right(tmp_path, sizes, compact):
    check_pages(write(tmp_path / "file.lmdb", sizes, compact=compact))


def test_file_with_a_database_inside_is_right(tmp_path):
    path = write(tmp_path / "file.lmdb", [], inner=True)
    check_pages(path)
    assert len(LMDBData(path, shuffle=False)) == 1


def test_pages_are_looked_at_in_parts(tmp_path, monkeypatch):
    path = write(tmp_path / "file.lmdb", KINDS["small"], compact=True)
    monkeypatch.setattr(lmdb_pages, "_PAGES_AT_A_TIME", 3)
    check_pages(path)
    damaged(path, find(path, "leaf") * PAGE + 12, 60000)
    with pytest.raises(InputError, match="the header of page"):
        check_pages(path)


def test_file_is_checked_again_when_it_is_another_one(tmp_path):
    path = write(tmp_path / "file.lmdb", [5])
    check_pages(path)
    hits = lmdb_pages._check.cache_info().hits
    check_pages(path)
    assert lmdb_pages._check.cache_info().hits == hits + 1
    os.truncate(path, 5000)
    with pytest.raises(InputError, match=r"is damaged: it was cut off: it has 5000 bytes, and its pages end at byte"):
        check_pages(path)


def damaged(path, offset, value):
    """Change two bytes of a file at a place."""
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(value.to_bytes(2, "little"))


def find(path, kind):
    """Return the number of a page of a kind, in a file of which all pages are in the tree."""
    if isinstance(kind, int):
        return kind
    with open(path, "rb") as file:
        words = np.frombuffer(file.read(), "<u2").reshape(-1, PAGE // 2)
    return [number for number in range(2, len(words)) if words[number, 5] == {"branch": 1, "leaf": 2}[kind]][-1]


@pytest.mark.parametrize(
    ("page", "offset", "value", "message"),
    [
        (0, 16, 7, "lmdb is damaged: its meta pages are damaged, or of another"),
        (0, 20, 2, "it has version 2: expected 1"),
        (0, 40, 4097, "page size 4097 is not a power"),
        (1, 40, 8192, "its two meta pages disagree about the page size"),
        (1, 44, 1, "fixed memory address is not supported"),
        (1, 92, 4, "flags 0x4 are not supported"),
        (1, 94, 99, "its tree is not between 1"),
        (1, 94, 1, "the header of page|: expected"),
        (1, 96, 99, r"its tree has \{'depth': 2,"),
        (1, 128, 60000, "is beyond its end"),
        (1, 136, 60000, "it was cut off"),
        (1, 10, 0, "lmdb is damaged: its meta pages are damaged, or of another"),
        ("branch", 0, 1, "the header of page .* is damaged"),
        ("branch", 12, 18, "the header of page .* is damaged"),
        ("branch", 16, 60000, "a (node|key) of a page is outside of its place"),
        ("leaf", 10, 4, "the header of page .* is damaged"),
        ("leaf", 12, 60000, "the header of page .* is damaged"),
        ("leaf", 14, 60000, "the header of page .* is damaged"),
        ("leaf", 16, 4095, "a node of a page is outside of its place"),
        ("leaf", 18, 17, "a node of a page is outside of its place"),
    ],
)
def test_damage_is_refused_in_words(tmp_path, page, offset, value, message):
    path = write(tmp_path / "file.lmdb", KINDS["small"], compact=True)
    damaged(path, find(path, page) * PAGE + offset, value)
    with pytest.raises(InputError, match=message):
        check_pages(path)


@pytest.mark.parametrize("kind", ["small", "large"])
def test_no_wrong_byte_in_a_page_ends_the_process(tmp_path, kind):
    path = write(tmp_path / "file.lmdb", KINDS[kind][:600])
    with open(path, "rb") as file:
        whole = file.read()
    moments = random.Random(5)

    def read_damaged():
        for number in range(150):
            content = bytearray(whole)
            for _ in range(moments.choice([1, 1, 3])):
                page = moments.randrange(len(content) // PAGE)
                content[page * PAGE + moments.choice([moments.randrange(64), moments.randrange(200)])] ^= (
                    1 << moments.randrange(8)
                )
            changed = tmp_path / f"{number}.lmdb"
            changed.write_bytes(content)
            try:
                list(LMDBData(str(changed), shuffle=False))
            except InputError:
                continue
            finally:
                changed.unlink()

    assert guarded(read_damaged) == 0
