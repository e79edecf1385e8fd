"""Ends of a process, in processes of their own."""

import subprocess
import sys

from tests.helpers.source import ROOT


def run(program):
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_thread_can_end_the_process_and_what_was_printed_and_logged_is_written():
    done = run(
        "import threading; from tpack.utils.process_exit import exit_now; print('printed', end=' ');"
        "threading.Thread(target=exit_now, args=(7, 'the reason')).start(); threading.Event().wait()"
    )
    assert done.returncode == 7
    assert done.stdout == "printed "
    assert "the reason" in done.stderr


def test_children_that_multiprocessing_made_end_too():
    done = run(
        "import multiprocessing, time; from tpack.utils.process_exit import exit_now;"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,)); child.start();"
        "exit_now(7, 'the reason')"
    )
    # The child has the ends of the pipes, too, so that they are closed when it has ended.
    assert done.returncode == 7


def test_a_timer_ends_the_process_while_pythons_lock_is_held():
    done = run(
        "import ctypes; from tpack.utils.process_exit import ExitTimer; timer = ExitTimer(0.1, 143);"
        "ctypes.PyDLL(None).pause()"
    )
    assert done.returncode == 143


def test_a_cancelled_timer_lets_the_process_live():
    done = run("from tpack.utils.process_exit import ExitTimer; timer = ExitTimer(60.0, 143); timer.cancel()")
    assert done.returncode == 0
