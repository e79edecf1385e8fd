"""A training whose step waits for ever in a way that nobody can break off, in a process of its own."""

import threading

import tensorflow.compat.v1 as tf

from tpack.callbacks.watchdog import Watchdog
from tpack.train.trainer import Trainer

_is_stuck = threading.Event()


class WatchdogOfTheStuck(Watchdog):
    """Waits until the step is stuck, however long the machine takes to begin it."""

    def _secs_left(self) -> float:
        return super()._secs_left() if _is_stuck.is_set() else self._timeout_secs


class Stuck(Trainer):
    """Waits inside of an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.train_op = tf.py_func(wait_for_ever, [], tf.float32, name="waits_in_python").op


def wait_for_ever() -> None:
    """Wait for what never comes."""
    _is_stuck.set()
    threading.Event().wait()


if __name__ == "__main__":
    dog = WatchdogOfTheStuck(0.2, kill_after_secs=0.2)
    Stuck().train_with_defaults(callbacks=[dog], extra_callbacks=[], monitors=[], steps_per_epoch=1, max_epoch=1)
