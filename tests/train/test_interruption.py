import os
import signal
import threading

import pytest

from tests.helpers.log_lines import captured_log
from tpack.train import interruption as interruption_module
from tpack.train.interruption import Interrupted, Interruption


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


def test_a_step_that_does_not_return_is_broken_off():
    broken_off = threading.Event()
    with captured_log() as log, Interruption(broken_off.set, grace_secs=0.01) as interruption:
        receive_without_python(interruption, signal.SIGTERM)
        assert broken_off.wait(60)
        assert interruption.broke_off
    assert "SIGTERM: training ends when the step does" in log[0]
    assert "did not end within" in log[1]


def test_a_second_signal_breaks_off_at_once():
    broken_off = threading.Event()
    with Interruption(broken_off.set, grace_secs=1e6) as interruption:
        receive_without_python(interruption, signal.SIGINT)
        receive_without_python(interruption, signal.SIGINT)
        assert broken_off.wait(60)


def test_a_step_that_returns_is_not_broken_off():
    with Interruption(unexpected, grace_secs=1e6) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            interruption.check()
    assert not interruption.broke_off


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
        interruption._sent_signal = True
        os.kill(os.getpid(), signal.SIGINT)
        interruption.check()
    interruption.end_process()
    assert interruption.signum is None


def test_a_real_end_goes_before_an_error_of_another_thread():
    with pytest.raises(KeyboardInterrupt), Interruption(lambda: interruption.leave()) as interruption:
        interruption.fail(ValueError("mine"))
        raise KeyboardInterrupt
