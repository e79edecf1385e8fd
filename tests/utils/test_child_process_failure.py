"""Exceptions of children, and how they died, in words."""

import pickle
import signal
import threading

import pytest

from tpack.errors import DataWorkerError, InputError, WorkerError
from tpack.utils.child_process import cause_of_death, failure_of


class Picky(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(one)


def caught(error):
    try:
        raise error
    except BaseException as raised:
        return failure_of(raised)


def test_error_says_who_what_and_where():
    failure = pickle.loads(pickle.dumps(caught(OSError("the disk is gone"))))
    error = failure.error(WorkerError, "worker 1 raised")
    assert str(error).startswith("worker 1 raised OSError: the disk is gone\n\nIn the worker:\nTraceback")
    assert "test_child_process_failure.py" in str(error)
    assert isinstance(error, WorkerError)
    assert isinstance(error.__cause__, OSError)
    assert str(error.__cause__) == "the disk is gone"


def test_chained_errors_are_in_the_traceback():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise OSError("second") from error
    except OSError as error:
        assert "KeyError: 'first'" in failure_of(error).traceback


def test_exception_that_cannot_be_pickled_is_told_in_words():
    error = caught(OSError(threading.Lock())).error(WorkerError, "worker 1 raised")
    assert "raised OSError: <unlocked _thread.lock" in str(error)
    assert error.__cause__ is None


def test_exception_that_cannot_be_made_again_is_told_in_words():
    error = caught(Picky("a", "b")).error(WorkerError, "worker 1 raised")
    assert "Picky: a" in str(error)
    assert isinstance(error.__cause__, TypeError)


def test_what_is_no_exception_is_no_cause():
    failure = caught(OSError("x"))
    changed = type(failure)(failure.text, failure.traceback, pickle.dumps("text"))
    assert changed.error(WorkerError, "worker raised").__cause__ is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
        (None, "has closed its connection"),
    ],
)
def test_cause_of_death_in_words(code, words):
    assert cause_of_death(code) == words


@pytest.mark.parametrize("kind", [InputError, WorkerError])
def test_error_of_a_data_worker_is_one_of_the_input_and_one_of_a_worker(kind):
    with pytest.raises(kind, match="worker 3 raised KeyError: 5"):
        raise failure_of(KeyError(5)).error(DataWorkerError, "worker 3 raised")
