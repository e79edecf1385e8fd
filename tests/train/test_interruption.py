import contextlib
import os
import signal
import socket
import threading

import pytest

from tests.helpers.log_lines import captured_log
from tpack.errors import Interrupted
from tpack.train import interruption as interruption_module
from tpack.train.interruption import Interruption, ended_by_signals


def unexpected():
    raise AssertionError("nothing was to be broken off")


@pytest.mark.parametrize(
    ("signum", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["ctrl-c", "sigterm"]
)
def test_the_first_signal_waits_for_the_check_and_the_second_does_not(signum, error):
    with Interruption(unexpected) as interruption:
        interruption.check()
        os.kill(os.getpid(), signum)
        with pytest.raises(Interrupted, match=signal.Signals(signum).name):
            interruption.check()
        with pytest.raises(error):
            os.kill(os.getpid(), signum)
        with pytest.raises(error):
            interruption.end_process()


def test_sigterm_ends_with_its_exit_code():
    with Interruption(unexpected) as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        interruption.end_process()
    assert end.value.code == 143


def test_without_a_signal_nothing_happens_and_handlers_come_back():
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    with Interruption(unexpected) as interruption:
        interruption.check()
        assert signal.getsignal(signal.SIGINT) != before[0]
    interruption.end_process()
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption(unexpected):
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("signum", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_ends_a_block_whatever_becomes_of_its_exception(signum, error):
    went_on = []

    def lose_what_is_raised():
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signum)
        went_on.append("after")

    with pytest.raises(error), ended_by_signals():
        lose_what_is_raised()
    assert went_on == ["after"]
    with pytest.raises(error), ended_by_signals():
        os.kill(os.getpid(), signum)
        went_on.append("never")
    assert went_on == ["after"]


def test_other_threads_leave_handlers_alone():
    handlers = []

    def enter():
        with Interruption(unexpected):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def receive_without_python(interruption, signum):
    """Do what happens at a signal while the main thread waits inside TensorFlow: no Python handler runs."""
    interruption._sockets[1].send(bytes([signum]))


@pytest.fixture
def times(monkeypatch):
    """A function that sets after how many seconds waiting is let go, the session closed, and the process ended."""

    def set_times(**secs):
        for name, value in secs.items():
            monkeypatch.setattr(interruption_module, name.upper(), value)

    return set_times


def test_what_waits_is_let_go_and_then_broken_off(times):
    times(let_go_secs=0.01, close_secs=0.02)
    let_go, broken_off = threading.Event(), threading.Event()
    with captured_log() as log, Interruption(broken_off.set, let_go=let_go.set, may_raise=never) as interruption:
        receive_without_python(interruption, signal.SIGTERM)
        assert let_go.wait(60)
        assert broken_off.wait(60)
        assert interruption.broke_off
    assert "SIGTERM: training ends when the step does" in log[0]
    assert "what it waits for is broken off" in log[1]
    assert "its session is closed" in log[2]


def never(interruption):
    return False


def test_python_code_is_interrupted_when_it_is_late(times):
    times(let_go_secs=0.01, close_secs=1e6)
    with pytest.raises(Interrupted, match="SIGINT"), Interruption(unexpected):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()


def test_what_is_held_is_interrupted_at_its_end(times):
    times(let_go_secs=0.01, close_secs=1e6)
    was_let_go, at_end = threading.Event(), []
    with pytest.raises(Interrupted, match="SIGINT"), Interruption(unexpected, let_go=was_let_go.set) as interruption:
        with interruption.held():
            os.kill(os.getpid(), signal.SIGINT)
            assert was_let_go.wait(60)
            at_end.append(1)
        at_end.append(2)
    assert at_end == [1]


def test_where_nothing_has_begun_training_ends_right_there():
    with pytest.raises(Interrupted), Interruption(unexpected, may_raise=lambda interruption: True):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the signal was handled before this")


def test_a_step_that_returns_is_not_broken_off():
    with Interruption(unexpected, let_go=unexpected) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            interruption.check()
    assert not interruption.broke_off


def test_after_training_nothing_is_broken_off():
    with Interruption(unexpected, let_go=unexpected) as interruption:
        interruption.leave()
        interruption._let_go_what_waits()
        interruption._close()
    assert not interruption.broke_off


def test_the_process_ends_in_time_after_the_first_signal_and_soon_after_the_second(no_end):
    with captured_log(), Interruption(unexpected) as interruption:
        receive_without_python(interruption, signal.SIGTERM)
        receive_without_python(interruption, signal.SIGINT)
        while len(no_end) < 2:
            assert not interruption.broke_off
    assert no_end == ["SIGTERM", "hurry SIGINT"]


def test_a_program_that_catches_ctrl_c_goes_on(no_end):
    with pytest.raises(Interrupted), Interruption(unexpected) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        while not no_end:
            pass
        interruption.check()
    assert no_end == ["SIGINT", "cancel"]


def test_the_handler_of_the_program_is_called_too():
    received = []
    before = signal.signal(signal.SIGTERM, lambda signum, frame: received.append(signum))
    try:
        with Interruption(unexpected) as interruption:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Interrupted):
                interruption.check()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_other_signals_go_to_who_was_told_of_them_before():
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    handler = signal.signal(signal.SIGUSR1, lambda signum, frame: None)
    before = signal.set_wakeup_fd(theirs.fileno())
    try:
        with Interruption(unexpected):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert ours.recv(1) == bytes([signal.SIGUSR1])
        assert signal.set_wakeup_fd(before) == theirs.fileno()
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGUSR1, handler)
        ours.close()
        theirs.close()


def test_a_fork_that_outlives_training_does_not_hold_its_end_up():
    reader, writer = os.pipe()
    with Interruption(unexpected):
        pid = os.fork()
        if pid == 0:
            # Like a worker of a data loader, it lives until it is told to end.
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    assert not [thread for thread in threading.enumerate() if thread.name == "signals"]
    os.close(writer)
    os.waitpid(pid, 0)
    os.close(reader)


def test_a_signal_of_a_fork_is_its_own():
    with captured_log() as log, Interruption(unexpected) as interruption:
        pid = os.fork()
        if not pid:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
        interruption.check()
    assert log == []


def test_another_thread_can_end_a_step_that_breaking_off_ends():
    error, broken_off = ValueError("mine"), threading.Event()
    with pytest.raises(ValueError, match="mine") as caught, Interruption(broken_off.set) as interruption:
        thread = threading.Thread(target=interruption.fail, args=[error])
        thread.start()
        assert broken_off.wait(60)
        raise OSError("what the step says to that")
    thread.join()
    assert caught.value is error
    assert isinstance(error.__cause__, OSError)


def test_another_thread_can_end_a_step_that_waits_in_python(monkeypatch):
    monkeypatch.setattr(interruption_module, "UNWIND_SECS", 0.01)
    before = signal.getsignal(signal.SIGINT)
    with captured_log() as log, pytest.raises(ValueError, match="mine"), Interruption(lambda: None) as interruption:
        thread = threading.Thread(target=interruption.fail, args=[ValueError("mine")])
        thread.start()
        threading.Event().wait()
    thread.join()
    assert log == []
    assert signal.getsignal(signal.SIGINT) == before


def test_an_error_that_comes_with_the_end_of_training_is_raised_all_the_same():
    with pytest.raises(ValueError, match="mine"), Interruption(lambda: interruption.leave()) as interruption:
        interruption.fail(ValueError("mine"))


def test_only_the_first_error_counts_and_none_after_the_last_step(monkeypatch):
    monkeypatch.setattr(interruption_module, "UNWIND_SECS", 0.0)
    calls = []
    with Interruption(lambda: calls.append(1)) as interruption:
        assert not interruption.wait_until_left(0)
        interruption.leave()
        assert interruption.wait_until_left(0)
        interruption.fail(ValueError("too late"))
    assert calls == []
    assert interruption.error is None


def test_a_signal_that_was_sent_before_the_step_ended_is_let_be():
    with Interruption(unexpected) as interruption:
        interruption.leave()
        interruption._num_sent = interruption._num_to_skip = 1
        os.kill(os.getpid(), signal.SIGINT)
        interruption.check()
    interruption.end_process()
    assert interruption.signum is None


def test_a_real_end_goes_before_an_error_of_another_thread():
    with pytest.raises(KeyboardInterrupt), Interruption(lambda: interruption.leave()) as interruption:
        interruption.fail(ValueError("mine"))
        raise KeyboardInterrupt


def test_a_training_may_wait_longer_for_other_processes_before_it_lets_go(times):
    times(let_go_secs=1e6, close_secs=1e6)
    let_go = threading.Event()
    with Interruption(unexpected, let_go=let_go.set, may_raise=never, let_go_secs=0.01) as interruption:
        receive_without_python(interruption, signal.SIGTERM)
        assert let_go.wait(60)
