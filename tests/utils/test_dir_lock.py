"""A directory is written to by one process at a time, and by nobody when that has died."""

import errno
import fcntl
import gc
import os
import signal
import socket

import pytest

from tests.helpers.claims import start_claiming
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.utils.dir_lock import LOCK_FILE, DirectoryClaim, check_not_claimed, forget_claims, had_claim, was_claimed


@pytest.fixture
def other(tmp_path):
    """Another process, which has claimed `tmp_path`."""
    process = start_claiming(tmp_path)
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_second_run_is_told_of_the_first_ones_process_host_and_start_claiming(tmp_path, other):
    wanted = rf"{tmp_path} is in use: process {other.pid} on {socket.gethostname()} writes to it since \d{{4}}-"
    with pytest.raises(ConfigError, match=wanted):
        DirectoryClaim(tmp_path)
    with pytest.raises(ConfigError, match=wanted):
        check_not_claimed(tmp_path)


def test_lock_ends_with_its_process_however_that_dies(tmp_path, other):
    other.kill()
    other.wait()
    check_not_claimed(tmp_path)
    with DirectoryClaim(tmp_path):
        assert (tmp_path / LOCK_FILE).exists()
    assert os.listdir(tmp_path) == []


def test_lock_ends_with_a_process_that_ends_well(tmp_path, other):
    other.communicate("")
    assert other.returncode == 0
    assert os.listdir(tmp_path) == []


def test_forked_worker_that_outlives_its_owner_does_not_hold_the_lock(tmp_path):
    process = start_claiming(tmp_path, "fork")
    worker = int(process.stdout.readline())
    try:
        with pytest.raises(ConfigError, match="in use"):
            DirectoryClaim(tmp_path)
        process.kill()
        process.wait()
        assert os.path.exists(f"/proc/{worker}")
        DirectoryClaim(tmp_path).release()
    finally:
        os.kill(worker, signal.SIGKILL)
        process.communicate()


def test_forked_child_that_ends_leaves_the_lock_to_its_parent(tmp_path):
    with DirectoryClaim(tmp_path):
        child = os.fork()
        if not child:
            gc.collect()
            os._exit(0)
        os.waitpid(child, 0)
        assert (tmp_path / LOCK_FILE).exists()
        process = start_claiming(tmp_path)
        assert f"in use: process {os.getpid()} on " in process.communicate("")[1]


def test_parts_of_a_process_claim_a_directory_in_any_order(tmp_path):
    first, second = DirectoryClaim(tmp_path), DirectoryClaim(f"{tmp_path}/../{tmp_path.name}")
    first.release()
    first.release()
    assert (tmp_path / LOCK_FILE).exists()
    second.release()
    assert not (tmp_path / LOCK_FILE).exists()
    DirectoryClaim(tmp_path).release()


def test_claim_that_nobody_refers_to_is_released(tmp_path):
    claim = DirectoryClaim(tmp_path)
    del claim
    gc.collect()
    assert not (tmp_path / LOCK_FILE).exists()


def test_directory_that_was_moved_or_deleted_is_locked_anew(tmp_path):
    directory = tmp_path / "log"
    directory.mkdir()
    old = DirectoryClaim(directory)
    directory.rename(tmp_path / "aside")
    directory.mkdir()
    with DirectoryClaim(directory):
        assert (directory / LOCK_FILE).exists()
        old.release()
        assert (directory / LOCK_FILE).exists()


def test_lock_file_that_was_removed_while_it_was_waited_for_is_made_anew(tmp_path, monkeypatch):
    flock = fcntl.flock

    def lock_and_remove(handle, kind):
        monkeypatch.undo()
        os.unlink(tmp_path / LOCK_FILE)
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", lock_and_remove)
    with DirectoryClaim(tmp_path):
        assert (tmp_path / LOCK_FILE).exists()


def test_owner_that_has_not_said_who_it_is_is_another_process(tmp_path, other):
    (tmp_path / LOCK_FILE).write_text("{")
    with pytest.raises(ConfigError, match="in use: another process writes to it"):
        DirectoryClaim(tmp_path)


def test_filesystem_without_locks_is_warned_of(tmp_path, monkeypatch):
    def refuse(handle, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with captured_log() as lines:
        DirectoryClaim(tmp_path).release()
    assert len(lines) == 1
    assert "cannot be locked ([Errno 37] No locks available): see to it that only one run writes" in lines[0]


@pytest.mark.parametrize("name", ["open", "pwrite"])
def test_directory_that_cannot_be_written_is_an_error_in_words(tmp_path, monkeypatch, name):
    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(ConfigError, match=rf"{tmp_path} cannot be written to: .*No space"):
            DirectoryClaim(tmp_path)
    DirectoryClaim(tmp_path).release()


def test_a_claim_that_was_released_is_known_until_it_is_forgotten(tmp_path):
    assert not had_claim(tmp_path)
    with DirectoryClaim(tmp_path):
        assert not had_claim(tmp_path)
    with DirectoryClaim(tmp_path):
        assert had_claim(tmp_path)
        assert not was_claimed(tmp_path)
    forget_claims(tmp_path)
    assert not had_claim(tmp_path)
