"""A function in a forked child, which may crash or hang without the test."""

import os
import signal
import sys
import traceback
from collections.abc import Callable


def guarded(function: Callable[[], object], *, timeout_secs: int = 60) -> int:
    """Call a function in a child, and return how that ended.

    Args:
        function: what may crash.
        timeout_secs: how long it may take before the child is killed by an alarm.

    Returns:
        0 if the function returned, 1 if it raised, and the signal less than 0 if one killed the child.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(timeout_secs)
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
