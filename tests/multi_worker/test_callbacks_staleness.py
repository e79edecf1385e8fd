from types import SimpleNamespace

import numpy as np
import pytest

from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.callbacks import BoundedStaleness


class Session:
    """Gives what is counted on the server, as often as it is asked."""

    def __init__(self, *counts):
        self._counts = list(counts)

    def run(self, fetches):
        return self._counts.pop(0) if len(self._counts) > 1 else self._counts[0]


def bounded(steps, session, timeout_secs=0.05):
    """Return what a worker of rank 1 does after a step, which may be two ahead."""
    progress = SimpleNamespace(steps=None, now=None)
    callback = BoundedStaleness(progress, 2, 1, timeout_secs)
    callback._trainer = SimpleNamespace(sess=session)
    callback._steps = np.array(steps)
    return callback


def test_a_worker_goes_on_when_the_slowest_has_come_nearer():
    session = Session((np.array([0, 3]), 0.0), (np.array([1, 3]), 0.0), (np.array([5, 3]), 0.0))
    callback = bounded([0, 3], session)
    callback._trigger_step()
    assert list(callback._steps) == [1, 3]


def test_a_worker_that_waits_is_told_when_another_wants_to_end():
    bounded([0, 3], Session((np.array([0, 3]), 1.0)))._trigger_step()


def test_the_slowest_are_named_when_they_take_too_long():
    callback = bounded([0, 3, 0], Session((np.array([0, 3, 0]), 0.0)))
    words = "workers 0, 2 made no step for 0.05 s after 0, and worker 1, which has made 3, may be 2 ahead"
    with pytest.raises(ClusterError, match=words):
        callback._trigger_step()


def test_a_limit_has_to_be_positive():
    with pytest.raises(ConfigError, match="timeout_secs"):
        bounded([0, 0], Session(), timeout_secs=0)
