"""Names that stand for several files, and writing to all of them or none."""

import os

import pytest

from tpack.dataflow.storage.shards import names_in_range, shard_names, written_shards
from tpack.errors import ConfigError, InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for number in (0, 2, 10, 1):
        (tmp_path / f"a-{number:02d}.tar").write_bytes(b"")
    (tmp_path / "odd{1..2}.tar").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a-00.tar", ["a-00.tar"]),
        ("a-{00..02}.tar", ["a-00.tar", "a-01.tar", "a-02.tar"]),
        ("a-*.tar", ["a-00.tar", "a-01.tar", "a-02.tar", "a-10.tar"]),
        ("a-{00..01}.*", ["a-00.tar", "a-01.tar"]),
        (["a-10.tar", "a-0[01].tar"], ["a-10.tar", "a-00.tar", "a-01.tar"]),
    ],
)
def test_names_of_files_are_found(folder, path, names):
    assert shard_names(None, path) == names


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("a-{00..03}.tar", InputError, "there is no file 'a-03.tar'"),
        ("a-{03..06}.tar", InputError, "there is no file 'a-03.tar', and 3 more of 4 are missing"),
        ("b-*.tar", ConfigError, r"path='b-\*.tar': expected a pattern that fits a file"),
        (["a-00.tar", "a-{00..02}.tar"], ConfigError, "'a-00.tar' more than once"),
        ("a-{2..1}.tar", ConfigError, "expected a range of 1 to 100000 numbers"),
        ("a-{0..1}{0..1}.tar", ConfigError, "expected one range of numbers in braces"),
        ([], ConfigError, r"got path=\[\]: expected a path, or a list of paths"),
        (3, ConfigError, "got path=3: expected a path, or a list of paths"),
        ("gs://bucket/a.tar", ConfigError, "got path='gs://bucket/a.tar'"),
    ],
)
def test_what_is_no_file_is_refused(folder, path, kind, message):
    with pytest.raises(kind, match=message):
        shard_names(None, path)


def test_numbers_are_as_wide_as_the_first():
    assert names_in_range(None, "x{8..11}y") == ["x8y", "x9y", "x10y", "x11y"]
    assert names_in_range(None, "x{008..010}") == ["x008", "x009", "x010"]


def test_files_are_written_together_or_not_at_all(folder):
    before = sorted(os.listdir())
    with pytest.raises(OSError, match="the disk is gone"), written_shards(None, "b-{0..1}.tar") as files:
        files[0].write(b"x")
        raise OSError("the disk is gone")
    assert sorted(os.listdir()) == before
    with written_shards(None, "b-{0..1}.tar") as files:
        for file in files:
            file.write(b"x")
    assert sorted(os.listdir()) == sorted([*before, "b-0.tar", "b-1.tar"])
