"""Trainings that hang end with an error that names what they wait for, and those that do not are left alone."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line
from tpack.callbacks import watchdog
from tpack.callbacks.watchdog import Watchdog
from tpack.dataflow.base import DataFlow
from tpack.errors import CallbackError, ConfigError, StepTimeoutError
from tpack.input_source import queue_input
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.train import interruption
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

ROOT = Path(__file__).parents[2]


class Blocked(DataFlow):
    """Gives no point before the test is over, so that it does not matter how slow the first step is."""

    def __init__(self):
        self.end = threading.Event()

    def __iter__(self):
        self.end.wait()
        yield [np.zeros(4, np.float32)] * 2


@pytest.fixture
def blocked(monkeypatch):
    """A dataflow that blocks until the test is over."""
    monkeypatch.setattr(queue_input, "JOIN_TIMEOUT_SECS", 0.01)
    monkeypatch.setattr(interruption, "UNWIND_SECS", 0.2)
    ds = Blocked()
    yield ds
    ds.end.set()


def train(trainer, source, callback):
    model = Line()
    trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
    with captured_log() as lines, pytest.raises(StepTimeoutError) as caught:
        trainer.train_with_defaults(
            callbacks=[callback], extra_callbacks=[], monitors=[], steps_per_epoch=10, max_epoch=1
        )
    return caught.value, "\n".join(lines)


@pytest.mark.parametrize("executor", ["pool", "caller"])
def test_a_step_that_waits_for_data_ends_with_the_names_of_operation_and_queue(blocked, executor):
    trainer = SimpleTrainer()
    trainer.executor = executor
    error, log = train(trainer, QueueInput(blocked), Watchdog(0.3))
    assert str(error) == (
        "no step has ended for 0.3 seconds, in epoch 1 after global step 0: operation QueueInput/dequeue waits for "
        "data: queue QueueInput/input_queue is empty"
    )
    # What TensorFlow says when the session is closed.
    assert isinstance(error.__cause__, (tf.errors.OpError, RuntimeError))
    assert "Queue QueueInput/input_queue holds 0 elements." in log
    assert "in __iter__" in log
    assert trainer.global_step == 0


def test_towers_that_wait_for_data_are_broken_off(blocked):
    error, _ = train(SyncMultiGPUTrainerReplicated(2), QueueInput(blocked), Watchdog(0.3))
    assert "operation QueueInput/dequeue, QueueInput/dequeue_1 waits for data" in str(error)


def test_a_step_that_waits_in_python_is_interrupted(blocked):
    error, log = train(SimpleTrainer(), FeedInput(blocked), Watchdog(0.3))
    assert "no operation of the step is known to wait, see where the threads are" in str(error)
    assert "thread MainThread:" in log


def test_a_process_that_nobody_can_free_is_ended():
    command = [sys.executable, "-m", "tests.helpers.stuck_training"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert process.returncode == 70
    assert "in wait_for_ever" in process.stderr
    assert "these operations may wait: waits_in_python (PyFunc)" in process.stderr
    assert "did not come back within 0.2 seconds. The process is ended." in process.stderr


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    times = [0.0]
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: times[0])
    return times


def test_only_the_time_since_the_last_step_of_an_epoch_counts(graph, clock):
    callback = Watchdog(10)
    callback.setup_graph(FakeTrainer())
    assert callback._secs_left() == 10
    clock[0] = 100
    callback.before_epoch()
    assert callback._secs_left() == 10
    clock[0] = 104
    assert callback._secs_left() == 6
    callback.trigger_step()
    assert callback._secs_left() == 10
    clock[0] = 115
    assert callback._secs_left() == -1
    callback.after_epoch()
    assert callback._secs_left() == 10


def test_a_step_that_ends_while_it_is_being_explained_is_not_broken_off(graph, clock, monkeypatch):
    callback, trainer = Watchdog(10), FakeTrainer()
    trainer.setup([callback])
    callback.before_epoch()
    clock[0] = 20
    monkeypatch.setattr(callback, "_find_reason", callback.trigger_step)
    with captured_log() as lines:
        assert not callback._end_training(trainer.interruption)
    assert lines[-1] == "A step has ended after all, and training goes on."


def test_a_session_that_does_not_answer_is_told(graph):
    callback, trainer = Watchdog(10), FakeTrainer()
    assert callback._find_reason() == "its operations are unknown"
    tf.queue.FIFOQueue(4, [tf.float32], [[]])
    trainer.setup([callback])
    trainer.sess.close()
    assert "the session does not answer (" in callback._find_reason()


def test_a_trainer_that_cannot_be_interrupted_is_an_error(graph):
    trainer = FakeTrainer()
    trainer.interruption = None
    with pytest.raises(CallbackError, match="got a trainer without interruption"):
        trainer.train([Watchdog(10)])


def test_seconds_are_positive():
    for options in ({"timeout_secs": 0}, {"timeout_secs": 1, "kill_after_secs": -1}):
        with pytest.raises(ConfigError, match="_secs=.*: expected a number greater than 0"):
            Watchdog(**options)
