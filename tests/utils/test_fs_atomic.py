"""Files and directories that appear as a whole or not at all."""

import os
import stat

import pytest

from tpack.errors import ConfigError
from tpack.utils.fs import atomic_path, atomic_write, leftover_of, remove_leftovers


@pytest.mark.parametrize(("mode", "content"), [("w", "grün\n"), ("wb", b"\0\1")])
def test_file_appears_when_the_block_ends(tmp_path, mode, content):
    path = tmp_path / "file"
    with atomic_write(path, mode) as file:
        file.write(content)
        assert not path.exists()
    assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert os.listdir(tmp_path) == ["file"]


def test_old_content_stays_if_the_block_raises(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write("new")
        raise KeyError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_content_is_on_disk_before_the_rename(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("replace"), replace(*names)))
    with atomic_write(tmp_path / "file") as file:
        file.write("new")
    assert events == ["fsync", "replace", "fsync"]


def test_permissions_are_of_the_old_file_or_by_the_umask(tmp_path):
    old, new, ordinary = tmp_path / "old", tmp_path / "new", tmp_path / "ordinary"
    old.write_text("")
    old.chmod(0o640)
    ordinary.write_text("")
    for path in (old, new):
        with atomic_write(path) as file:
            file.write("text")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == ordinary.stat().st_mode


def test_missing_directory_raises(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "file"):
        pass


def test_failing_rename_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"), atomic_write(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_directory_is_not_synced_where_it_cannot_be(tmp_path, monkeypatch):
    path = tmp_path / "file"
    with atomic_write(path) as file:
        file.write("new")
        monkeypatch.setattr(os, "name", "nt")
    monkeypatch.undo()
    assert path.read_text() == "new"


@pytest.mark.parametrize("mode", ["a", "r", "w+"])
def test_other_modes_are_refused(tmp_path, mode):
    with pytest.raises(ConfigError, match="expected 'w' or 'wb'"), atomic_write(tmp_path / "file", mode):
        pass


def test_path_takes_its_place_when_the_block_ends(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with atomic_path(path) as temporary:
        with open(temporary, "w") as file:
            file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_block_that_raises_leaves_nothing_at_a_path(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ValueError, match="half way"), atomic_path(path) as temporary:
        with open(temporary, "w") as file:
            file.write("ne")
        raise ValueError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_relative_path_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_path("a") as temporary, open(temporary, "w") as file:
        file.write("new")
    assert (tmp_path / "a").read_text() == "new"


def test_directory_takes_the_place_of_an_empty_one(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    with atomic_path(path) as temporary:
        os.mkdir(temporary)
        with open(os.path.join(temporary, "file"), "w") as file:
            file.write("new")
        assert list(path.iterdir()) == []
    assert [entry.name for entry in path.iterdir()] == ["file"]
    assert list(tmp_path.iterdir()) == [path]


def test_directory_with_content_stays(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "mine").write_text("")
    with pytest.raises(OSError, match="not empty"), atomic_path(path) as temporary:
        os.mkdir(temporary)
    assert [entry.name for entry in path.iterdir()] == ["mine"]
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_a_library_wrote_keeps_the_permissions(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_path(path) as temporary, open(temporary, "w") as file:
        file.write("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_a_killed_process_left_tells_whose_it_is(tmp_path):
    with atomic_path(tmp_path / "a.b-1.json") as temporary:
        assert leftover_of(os.path.basename(temporary)) == "a.b-1.json"
        open(temporary, "w").close()
    assert [leftover_of(name) for name in ("a.tmp", ".a.tmp", "a.0a1b2c3d.tmp", ".a.0a1b2c3d.tmpx")] == [None] * 4


def test_leftovers_of_a_file_and_old_ones_are_removed(tmp_path):
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "kept").touch()
    (tmp_path / ".link.0a1b2c3d.tmp").symlink_to(tmp_path / "apart")
    (tmp_path / ".old-directory.0a1b2c3d.tmp").mkdir()
    (tmp_path / ".old-directory.0a1b2c3d.tmp" / "file").touch()
    for name in (".a.0a1b2c3d.tmp", ".young.0a1b2c3d.tmp", ".old.0a1b2c3d.tmp", "old.tmp"):
        (tmp_path / name).touch()
    for path in (".link.0a1b2c3d.tmp", ".old-directory.0a1b2c3d.tmp", ".old.0a1b2c3d.tmp", "old.tmp"):
        os.utime(tmp_path / path, (1, 1), follow_symlinks=False)
    remove_leftovers(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == [".young.0a1b2c3d.tmp", "apart", "old.tmp"]
    assert os.listdir(tmp_path / "apart") == ["kept"]


def test_remote_path_is_refused_and_a_file_url_is_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(ConfigError, match="got path='s3://bucket/file': expected a path on this machine"),
        atomic_write("s3://bucket/file"),
    ):
        pytest.fail("it was opened")
    with atomic_write(f"file://{tmp_path}/file") as file:
        file.write("content")
    assert os.listdir(tmp_path) == ["file"]
