"""How workers are started."""

import sys
import threading

import pytest

from tpack.dataflow.parallel.workers.child import check_fork, current_start_method, start_workers_by
from tpack.errors import ConfigError
from tpack.utils import logger


def test_spawn_is_the_default_and_a_block_changes_it_for_itself():
    assert current_start_method() == "spawn"
    with start_workers_by("fork"):
        assert current_start_method() == "fork"
        with start_workers_by("spawn"):
            assert current_start_method() == "spawn"
        assert current_start_method() == "fork"
    assert current_start_method() == "spawn"


def test_block_ends_with_an_exception_too_and_is_not_seen_in_other_threads():
    seen = []
    with pytest.raises(OSError, match="gone"), start_workers_by("fork"):
        thread = threading.Thread(target=lambda: seen.append(current_start_method()))
        thread.start()
        thread.join()
        raise OSError("gone")
    assert [*seen, current_start_method()] == ["spawn", "spawn"]


def test_other_methods_are_refused():
    with pytest.raises(ConfigError, match="got 'thread': wanted one of 'spawn', 'fork'"), start_workers_by("thread"):
        pytest.fail("the block was entered")


def test_fork_is_refused_while_there_are_other_threads():
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="the-other-one", daemon=True)
    thread.start()
    with pytest.raises(ConfigError, match=r"Owner was to fork a process with \d+ other threads .*'spawn'"):
        check_fork("Owner")
    end.set()
    thread.join()


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that are logged, in a process without other threads."""
    found = []
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    monkeypatch.setattr(logger, "warning", lambda message, *args: found.append(message % args))
    return found


def test_fork_after_tensorflow_is_warned_of(monkeypatch, warnings):
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    check_fork("Owner")
    assert len(warnings) == 1
    assert "Owner forks a process that has loaded TensorFlow" in warnings[0]


def test_fork_of_a_plain_process_is_fine(monkeypatch, warnings):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    check_fork("Owner")
    assert warnings == []
