"""The workers that a flow has or has not."""

import math
import pickle

import pytest

from tests.helpers.worker_functions import wait
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.workers.group import OwnedWorkers
from tpack.dataflow.parallel.workers.launch import start_workers_by
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
    with pytest.raises(DataFlowTerminated, match=r"the workers of Owner have been ended: reset_state\(\) starts new"):
        workers.group()


def test_a_second_start_ends_the_first(workers):
    first, second = start(workers), start(workers)
    assert first.is_closed
    assert workers.group() is second


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
    with pytest.raises(ConfigError, match="Owner got timeout=.*: wanted a number of seconds"):
        OwnedWorkers(Owner(), timeout)
