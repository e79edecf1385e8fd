"""Where every thread of the process is."""

from __future__ import annotations

import sys
import threading
import traceback


def format_thread_stacks() -> str:
    """Return the stack of each thread that runs Python; the main thread's comes last, where it is seen first in a log.

    Threads of TensorFlow are among them while they run Python, as they do in ``tf.py_func``.
    """
    known = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    parts = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: item[0] == main):
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"{_describe(known.get(ident))}:\n{stack}")
    return "\n".join(parts)


def _describe(thread: threading.Thread | None) -> str:
    if thread is None:
        return "a thread that Python did not start"
    return f"{'daemon ' if thread.daemon else ''}thread {thread.name}"
