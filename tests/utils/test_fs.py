"""Directories and paths."""

import os

import pytest

from tpack.errors import InputError
from tpack.utils.fs import (
    check_inner_name,
    get_dataset_path,
    mkdir_p,
    normpath,
    open_regular,
    read_regular,
    recursive_walk,
)


def test_mkdir_p_makes_parents_and_may_be_repeated(tmp_path):
    for _ in range(2):
        mkdir_p(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_mkdir_p_of_the_empty_name_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mkdir_p("")
    assert os.listdir(tmp_path) == []


def test_dataset_path_follows_the_variable_on_each_call(monkeypatch, tmp_path):
    monkeypatch.setenv("TPACK_DATASET", str(tmp_path / "sets"))
    assert get_dataset_path("mnist", "train") == str(tmp_path / "sets" / "mnist" / "train")
    monkeypatch.delenv("TPACK_DATASET")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert get_dataset_path("mnist") == str(tmp_path / "tpack_data" / "mnist")
    assert os.listdir(tmp_path) == []


def test_walk_yields_files_in_order(tmp_path):
    for name in ("b/2", "b/1", "a/c/3", "z", "a/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "empty").mkdir()
    assert [os.path.relpath(path, tmp_path) for path in recursive_walk(tmp_path)] == ["z", "a/y", "a/c/3", "b/1", "b/2"]


def test_paths_lose_needless_parts_and_urls_stay():
    assert normpath("a//b/./c/../d/") == "a/b/d"
    assert normpath("gs://bucket//a/") == "gs://bucket//a/"


OUTSIDE = ["../x", "a/../../x", "..", "/etc/x", "a//b", "a/", "", ".", "a/.", "C:/x", "c:x", "..\\x", "a\\b", "a\0b"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_name_that_leads_out_of_a_directory_is_refused(name):
    with pytest.raises(InputError, match="the store got name=.*: expected a relative name below it"):
        check_inner_name("the store", name)


@pytest.mark.parametrize("name", ["x", "a/b.c", "./a/b", "..a/b..", "mnist:b", "model-8.index", "é/漢"])
def test_name_below_a_directory_is_returned(name):
    assert check_inner_name("the store", name) == name


def test_a_regular_file_is_read_up_to_a_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(str(tmp_path / "link"), 5) == b"12345"
    with pytest.raises(InputError, match="file has 5 bytes: expected at most 4"):
        read_regular(str(tmp_path / "file"), 4)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_and_a_device_are_no_regular_files(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with (
        pytest.raises(InputError, match="is a pipe, a device or the like: expected a regular file"),
        open_regular(str(path)),
    ):
        pass
