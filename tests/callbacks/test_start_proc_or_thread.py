import multiprocessing as mp
import os
import threading
import time

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.worker_functions import close_and_end
from tpack.callbacks import start_proc_or_thread
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.start_proc_or_thread import StartProcOrThread
from tpack.errors import WorkerError, WrongTypeError
from tpack.train.trainer import Trainer
from tpack.utils.concurrency import StoppableThread


class Waiting(StoppableThread):
    """Waits to be stopped."""

    def run(self):
        self._stop_event.wait()


class Failing(StoppableThread):
    def run(self):
        raise OSError("the disk is gone")


def test_threads_and_processes_live_as_long_as_training(graph):
    # A process that would outlive the test by far.
    process = mp.get_context("spawn").Process(target=time.sleep, args=(1000,), name="sleeper", daemon=True)
    members = [Waiting(name="waiter"), process]
    alive = []
    note = CallbackFactory(trigger=lambda cb: alive.append([member.is_alive() for member in members]))
    with captured_log() as lines:
        FakeTrainer().train([StartProcOrThread(members), note], epochs=(1, 1))
    assert alive == [[True, True]]
    assert not any(member.is_alive() for member in members)
    assert lines == ["Starting waiter, sleeper ..."]


def test_they_may_be_left_running(graph):
    thread = Waiting(daemon=True)
    FakeTrainer().train([StartProcOrThread(thread, stop_at_last=False)])
    assert thread.is_alive()
    thread.stop()
    thread.join()


def test_what_cannot_be_stopped_or_does_not_stop_is_left_alone_and_told(graph, monkeypatch):
    monkeypatch.setattr(start_proc_or_thread, "JOIN_TIMEOUT_SECS", 0.01)
    end = threading.Event()
    plain = threading.Thread(target=end.wait, name="plain", daemon=True)
    deaf = StoppableThread(target=end.wait, name="deaf", daemon=True)
    with captured_log() as lines:
        FakeTrainer().train([StartProcOrThread([plain, deaf])])
    end.set()
    plain.join()
    deaf.join()
    assert "plain is a thread without stop() and is left alone." in lines
    assert "deaf did not end within 0.01 seconds and is left alone." in lines


def test_the_failure_of_a_thread_is_told(graph):
    class LetItFail(Callback):
        def _before_train(self):
            thread.join()

    thread = Failing()
    callback = StartProcOrThread([Waiting(), thread])
    assert callback.failure() is None
    failures = []
    FakeTrainer().train([callback, LetItFail(), CallbackFactory(trigger=lambda _: failures.append(callback.failure()))])
    assert isinstance(failures[0], OSError)


def test_what_cannot_be_started_is_an_error():
    with pytest.raises(WrongTypeError, match=r"^StartProcOrThread got startable\[1\]="):
        StartProcOrThread([Waiting(), 5])


class ForGood(Trainer):
    """Waits for what a thread of the user's was to give."""

    def __init__(self):
        super().__init__()
        self.train_op = tf.FIFOQueue(1, [tf.float32], [[]], name="never_filled").dequeue()


def train_for_good(member):
    with captured_log(), pytest.raises(WorkerError) as caught:
        ForGood().train_with_defaults(
            callbacks=[StartProcOrThread(member)], extra_callbacks=[], monitors=[], steps_per_epoch=1, max_epoch=1
        )
    return caught.value


@pytest.mark.parametrize("kind", [threading.Thread, StoppableThread], ids=["plain", "stoppable"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_ends_training_by_its_name(graph, kind):
    def fail():
        raise OSError("the disk is gone")

    error = train_for_good(kind(target=fail, name="feeder", daemon=True))
    assert str(error) == "training ends because the thread 'feeder' ended with OSError: the disk is gone"


@pytest.mark.parametrize("end", [os._exit, close_and_end], ids=["at once", "slowly"])
def test_a_process_that_fails_ends_training_by_its_name(graph, end):
    process = mp.get_context("spawn").Process(target=end, args=(3,), name="feeder", daemon=True)
    assert str(train_for_good(process)) == "training ends because the process 'feeder' ended with exit code 3"
