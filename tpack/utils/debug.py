"""A trace of function calls."""

import sys
import threading
from types import FrameType


def enable_call_trace() -> None:
    """Write each call of a Python function in this thread to standard error, slowly, until ``sys.settrace(None)``."""
    sys.settrace(_trace_call)


def _trace_call(frame: FrameType, event: str, argument: object) -> None:
    """Write caller and callee; the callee's lines are not traced."""
    caller = frame.f_back
    if event != "call" or caller is None or sys.stderr is None:
        return
    called = f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
    place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    sys.stderr.write(f"[{threading.current_thread().name}] {called} called from {place}\n")
