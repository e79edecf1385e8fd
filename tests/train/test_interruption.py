import os
import signal
import threading

import pytest

from tpack.train.interruption import Interrupted, Interruption


@pytest.mark.parametrize(
    ("signum", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["ctrl-c", "sigterm"]
)
def test_the_first_signal_waits_for_the_check_and_the_second_does_not(signum, error):
    with Interruption() as interruption:
        interruption.check()
        os.kill(os.getpid(), signum)
        with pytest.raises(Interrupted, match=signal.Signals(signum).name):
            interruption.check()
        with pytest.raises(error):
            os.kill(os.getpid(), signum)
        with pytest.raises(error):
            interruption.end_process()


def test_sigterm_ends_with_its_exit_code():
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        interruption.end_process()
    assert end.value.code == 143


def test_without_a_signal_nothing_happens_and_handlers_come_back():
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    with Interruption() as interruption:
        interruption.check()
        assert signal.getsignal(signal.SIGINT) != before[0]
    interruption.end_process()
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_handlers_alone():
    handlers = []

    def enter():
        with Interruption():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
