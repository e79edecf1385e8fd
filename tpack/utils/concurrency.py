"""Threads and processes, gathered under the module name that scripts import them from.

Their code is in ``tpack.utils.threads``, ``tpack.utils.session_thread`` and ``tpack.utils.processes``.
"""

from typing import Final

from tpack.utils.processes import enable_death_signal, ensure_proc_terminate, mask_sigint, start_proc_mask_signal
from tpack.utils.session_thread import ShareSessionThread
from tpack.utils.threads import LoopThread, StoppableThread

__all__ = [
    "DIE",
    "LoopThread",
    "ShareSessionThread",
    "StoppableThread",
    "enable_death_signal",
    "ensure_proc_terminate",
    "mask_sigint",
    "start_proc_mask_signal",
]


class _Die:
    """The class of ``DIE``; pickling it gives the same object back, so that ``is DIE`` holds across processes."""

    def __reduce__(self) -> str:
        return "DIE"

    def __repr__(self) -> str:
        return "DIE"


DIE: Final = _Die()
"""What the producer of a queue puts last, so that the consumer ends."""
