"""Exceptions that cross the border between processes, with the traceback they had on the other side."""

import pickle
import signal
import traceback
from dataclasses import dataclass

import cloudpickle

from tpack.errors import DataWorkerError


@dataclass(frozen=True)
class Failure:
    """An exception of a worker, to be raised when its turn comes.

    Attributes:
        text: the exception in one line.
        traceback: its traceback, as Python prints it.
        pickled: the exception itself, or None if it cannot be pickled.
    """

    text: str
    traceback: str
    pickled: bytes | None

    def error(self, worker: str) -> DataWorkerError:
        """Return an error to be raised, whose cause is the exception itself, if that could be brought here.

        Args:
            worker: what to call the worker.
        """
        error = DataWorkerError(f"{worker} raised {self.text}\n\nIn the worker:\n{self.traceback}")
        error.__cause__ = self._cause()
        return error

    def _cause(self) -> BaseException | None:
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception as why:
            # Its class wants other arguments, or is not known here; the text says what it was.
            return why
        return error if isinstance(error, BaseException) else None


def failure_of(error: BaseException) -> Failure:
    """Describe an exception, in the process where it was raised."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    try:
        pickled = cloudpickle.dumps(error)
    except Exception:
        # Not everything that is raised can be sent; its text and traceback always can.
        pickled = None
    return Failure(text, "".join(traceback.format_exception(type(error), error, error.__traceback__)), pickled)


def cause_of_death(code: int | None) -> str:
    """Say in words how a process ended.

    Args:
        code: its exit code; the negative number of a signal; None if it is not known.
    """
    if code is None:
        return "has closed its connection"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
