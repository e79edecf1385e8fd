"""The workers that a flow has or has not."""

import math
import pickle
import threading

import pytest

from tests.helpers.worker_functions import echo, wait
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.worker import start_workers_by
from tpack.dataflow.parallel.worker_group import OwnedWorkers
from tpack.errors import ConfigError, InputError


class Owner:
    """Something with a name."""


@pytest.fixture
def workers():
    owned = OwnedWorkers(Owner(), None)
    yield owned
    owned.end()


def start(workers):
    return workers.start(wait, (), count=1, results=1, jobs=1)


def test_there_are_none_before_the_start_and_after_the_end(workers):
    with pytest.raises(InputError, match=r"Owner has no workers yet: call reset_state\(\) once"):
        workers.group()
    workers.end()
    group = start(workers)
    assert workers.group() is group
    workers.end()
    with pytest.raises(DataFlowTerminated, match=r"the workers of Owner were ended: use reset_state\(\) to start new"):
        workers.group()


def test_a_second_start_ends_the_first(workers):
    first, second = start(workers), start(workers)
    assert first.is_closed
    assert workers.group() is second


@pytest.fixture
def forks(monkeypatch):
    """Workers that are forked, and a function that starts them."""
    alone = [threading.current_thread()]
    monkeypatch.setattr(threading, "enumerate", lambda: alone)
    with start_workers_by("fork"):
        owned = OwnedWorkers(Owner(), None)
    yield owned, lambda: owned.start(echo, ("",), count=1, results=1, jobs=1)
    alone[:] = [threading.current_thread()]
    owned.end()


def test_forks_that_wait_are_kept_where_others_could_not_be_made(forks, monkeypatch):
    _, start_forks = forks
    group = start_forks()
    threading.enumerate().append(threading.Thread(name="other"))
    assert start_forks() is group
    group.expect(0, is_expected=True)
    group.senders[0].put([1])
    group.senders[0].flush()
    assert group.receive()[1].points == [["", [1]]]
    with pytest.raises(ConfigError, match=r"1 other threads \(other\).* call reset_state\(\) once yourself, before"):
        start_forks()
    assert group.is_closed


def test_forks_that_were_asked_something_are_made_anew(forks):
    owned, start_forks = forks
    group = start_forks()
    group.cancel(0, 1)
    other = start_forks()
    assert other is not group
    owned.end()
    assert start_forks() is not other


def test_a_pickled_one_has_none(workers):
    start(workers)
    with pytest.raises(InputError, match="no workers yet"):
        pickle.loads(pickle.dumps(workers)).group()


def test_start_method_is_the_current_one_when_it_is_made():
    with start_workers_by("fork"):
        owned = OwnedWorkers(Owner(), None)
    assert owned._start_method == "fork"


@pytest.mark.parametrize("timeout", [None, 1, 0.5])
def test_timeout_is_none_or_a_number_of_seconds(timeout):
    assert OwnedWorkers(Owner(), timeout)._timeout == timeout


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, True, "3"])
def test_other_timeouts_are_refused(timeout):
    with pytest.raises(ConfigError, match="expected a positive number or None"):
        OwnedWorkers(Owner(), timeout)
