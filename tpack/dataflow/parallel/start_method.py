"""How worker processes come to be: as new interpreters, or as forks of this process.

A new interpreter (``"spawn"``) is the default. It shares nothing with this process, so that threads, locks and
TensorFlow here do no harm there. What it works on is sent to it by cloudpickle, so closures and lambdas may be used,
and the script needs no ``if __name__ == "__main__"``: it is not run again. Large arrays in it are not copied for each
worker. It imports what the flow refers to, and TensorFlow only if the flow does.

A fork begins at once and needs no pickling, but a lock that another thread holds at that moment stays locked in it for
ever. It is therefore made on request only, and refused while other Python threads are alive.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from tpack.errors import ConfigError
from tpack.utils import logger

StartMethod = Literal["spawn", "fork"]
_METHODS = ("spawn", "fork")
_current: ContextVar[StartMethod] = ContextVar("tpack_start_method", default="spawn")


@contextmanager
def start_workers_by(method: StartMethod) -> Iterator[None]:
    """Let the flows that are made in a ``with`` block start their workers in one way.

    Args:
        method: ``"spawn"`` or ``"fork"``.

    Raises:
        ConfigError: It is neither.
    """
    if method not in _METHODS:
        raise ConfigError(f"start_workers_by got {method!r}: wanted one of {', '.join(map(repr, _METHODS))}")
    token = _current.set(method)
    try:
        yield
    finally:
        _current.reset(token)


def current_start_method() -> StartMethod:
    """Return how a flow that is made now starts its workers."""
    return _current.get()


def check_fork(owner: str) -> None:
    """Look for what makes a fork of this process dangerous.

    Args:
        owner: what wants to fork, for the message.

    Raises:
        ConfigError: There are other threads.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        raise ConfigError(
            f"{owner} was to fork a process with {len(others)} other threads ({', '.join(others[:5])}): a lock that "
            "one of them holds would stay locked in the worker for ever; call reset_state() before threads are "
            "started, or start the workers by 'spawn'"
        )
    if "tensorflow" in sys.modules:
        logger.warning(
            "%s forks a process that has loaded TensorFlow: if a session was made already, its threads are missing in "
            "the workers, and they may hang; 'spawn' is safe",
            owner,
        )
