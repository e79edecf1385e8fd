"""What each action does to a log directory that exists."""

import os

import pytest

from tests.helpers.claims import claimed_elsewhere
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.logger import prepare_log_dir


@pytest.fixture
def used(tmp_path):
    """A directory with one file in it."""
    path = tmp_path / "run"
    path.mkdir()
    (path / "old").write_text("old")
    return path


def others(used):
    return [path for path in used.parent.iterdir() if path != used]


@pytest.mark.parametrize("action", [None, "b", "d", "k", "n", "q", "raise"])
def test_new_directory_is_made_whatever_the_action(tmp_path, action):
    path = str(tmp_path / "a" / "b")
    assert prepare_log_dir(path, action) == path
    assert os.listdir(path) == []


@pytest.mark.parametrize("action", [None, "d", "n", "raise"])
def test_empty_directory_is_used_whatever_the_action(tmp_path, action):
    assert prepare_log_dir(str(tmp_path), action) == str(tmp_path)


@pytest.mark.parametrize("action", [None, "b"])
def test_backup_moves_the_content_aside_and_says_where(used, action, capsys):
    assert prepare_log_dir(str(used), action) == str(used)
    assert os.listdir(used) == []
    (backup,) = others(used)
    assert f"What was in {used} is in {backup} now." in capsys.readouterr().err
    assert backup.name.startswith("run-")
    assert (backup / "old").read_text() == "old"


@pytest.mark.parametrize("action", [None, "b", "d"])
def test_directory_that_another_process_trains_in_is_neither_moved_nor_deleted(used, action):
    with claimed_elsewhere(used) as pid, pytest.raises(ConfigError, match=f"in use: process {pid} on"):
        prepare_log_dir(str(used), action)
    assert (used / "old").read_text() == "old"
    prepare_log_dir(str(used), action)
    assert os.listdir(used) == []


def test_directory_that_another_process_trains_in_can_be_logged_into(used):
    with claimed_elsewhere(used):
        assert prepare_log_dir(str(used), "k") == str(used)
        assert prepare_log_dir(str(used), "n") != str(used)


def test_two_backups_in_one_second_both_stay(used):
    prepare_log_dir(str(used))
    (used / "newer").write_text("newer")
    prepare_log_dir(str(used))
    assert sorted(name for backup in others(used) for name in os.listdir(backup)) == ["newer", "old"]


def test_delete_removes_the_content(used):
    prepare_log_dir(str(used), "d")
    assert os.listdir(used) == []
    assert others(used) == []


def test_keep_leaves_the_content(used):
    assert prepare_log_dir(str(used), "k") == str(used)
    assert os.listdir(used) == ["old"]


def test_new_makes_another_directory(used):
    path = prepare_log_dir(str(used), "n")
    assert path.startswith(f"{used}-")
    assert os.listdir(path) == []
    assert os.listdir(used) == ["old"]


@pytest.mark.parametrize("action", ["q", "raise"])
def test_refuse_raises_and_touches_nothing(used, action):
    with pytest.raises(ConfigError, match="exists and is not empty"):
        prepare_log_dir(str(used), action)
    assert os.listdir(used) == ["old"]


def test_unknown_action_raises(used):
    with pytest.raises(
        ConfigError, match="action='x' for an existing log directory is unknown: expected one of None, 'b'"
    ):
        prepare_log_dir(str(used), "x")


def test_file_in_the_way_raises(used):
    with pytest.raises(ConfigError, match="is a file: expected a directory"):
        prepare_log_dir(str(used / "old"))


@pytest.mark.parametrize("action", ["b", "d"])
def test_working_directory_is_not_moved_or_deleted(used, action, monkeypatch):
    (used / "below").mkdir()
    monkeypatch.chdir(used / "below")
    with pytest.raises(ConfigError, match="the process works inside"):
        prepare_log_dir(str(used), action)
    assert sorted(os.listdir(used)) == ["below", "old"]


@pytest.fixture
def no_directory():
    yield
    logger.close_logger_dir()


def test_what_was_moved_aside_unasked_is_taken_back_with_what_was_written_since(used, no_directory):
    (used / "log.log").write_text("an old line\n")
    (used / "again").write_text("old")
    logger.set_logger_dir(used)
    (used / "again").write_text("new")
    (used / "more").mkdir()
    (used / "more" / "file").write_text("more")
    logger.take_back_dir()
    logger.info("one more line")
    assert others(used) == []
    assert logger.get_logger_dir() == str(used)
    assert [(used / name).read_text() for name in ("old", "again", "more/file")] == ["old", "new", "more"]
    log = (used / "log.log").read_text()
    places = [log.index(text) for text in ("an old line", "; command: ", "again, to go on with", "one more line")]
    assert places == sorted(places)
    # It is as it was said to be from now on.
    logger.take_back_dir()
    assert others(used) == []


@pytest.mark.parametrize("action", ["b", "n", "k"])
def test_what_was_asked_for_is_not_taken_back(used, no_directory, action):
    logger.set_logger_dir(used, action)
    before = sorted(used.parent.rglob("*"))
    logger.take_back_dir()
    assert sorted(used.parent.rglob("*")) == before
