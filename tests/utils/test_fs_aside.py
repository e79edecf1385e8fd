"""Files written beside their place."""

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
