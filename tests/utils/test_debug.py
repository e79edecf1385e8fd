"""The trace of calls."""

import sys
import threading

from tpack.utils.debug import enable_call_trace


def inner():
    return 1


def outer():
    return inner()


def test_calls_are_written_with_who_called(capsys):
    def work():
        enable_call_trace()
        outer()
        sys.settrace(None)
        inner()

    # In a thread of its own: a debugger or a measurement of coverage traces the test's.
    thread = threading.Thread(target=work, name="traced")
    thread.start()
    thread.join()
    first, second = (line for line in capsys.readouterr().err.splitlines() if "test_debug" in line)
    assert first.startswith("[traced] outer (")
    assert second.startswith("[traced] inner (")
    assert second.endswith(f"called from {__file__}:{outer.__code__.co_firstlineno + 1}")
