"""Files written beside their place."""

import os

import pytest

from tpack.utils.fs import written_aside


def test_file_takes_its_place_when_the_block_ends(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with written_aside(path) as aside:
        with open(aside, "w") as file:
            file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_block_that_raises_leaves_nothing(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ValueError, match="half way"), written_aside(path) as aside:
        with open(aside, "w") as file:
            file.write("ne")
        raise ValueError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), written_aside(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_relative_path_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with written_aside("a") as aside, open(aside, "w") as file:
        file.write("new")
    assert (tmp_path / "a").read_text() == "new"


def test_directory_takes_the_place_of_an_empty_one(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    with written_aside(path) as aside:
        os.mkdir(aside)
        with open(os.path.join(aside, "file"), "w") as file:
            file.write("new")
        assert list(path.iterdir()) == []
    assert [entry.name for entry in path.iterdir()] == ["file"]
    assert list(tmp_path.iterdir()) == [path]


def test_directory_with_content_stays(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "mine").write_text("")
    with pytest.raises(OSError, match="not empty"), written_aside(path) as aside:
        os.mkdir(aside)
    assert [entry.name for entry in path.iterdir()] == ["mine"]
    assert list(tmp_path.iterdir()) == [path]
