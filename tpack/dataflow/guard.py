"""A guard against two iterations of one flow at the same time.

Most flows allow that. One that keeps its position between iterations does not: the two would take each other's data.
"""

import threading
from types import TracebackType

from tpack.errors import InputError


class DataFlowReentrantGuard:
    """A ``with`` block that only one iteration can be in; it pickles as a free one."""

    def __init__(self, owner: str) -> None:
        """Make a free guard.

        Args:
            owner: what is guarded, for the message.
        """
        self._owner = owner
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self._owner,)

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._owner} is being iterated already: wanted one iteration at a time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
