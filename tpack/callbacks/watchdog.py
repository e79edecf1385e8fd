"""An end, with an explanation, to a training that hangs."""

from __future__ import annotations

import os
import threading
import time

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.thread_stacks import format_thread_stacks
from tpack.callbacks.waiting_ops import WaitingOps
from tpack.errors import ConfigError, StepTimeoutError
from tpack.utils import logger

EXIT_CODE = 70
"""What `sysexits.h` calls an internal software error."""

JOIN_TIMEOUT_SECS = 5.0
"""How long the end of training waits for the thread, which may be about to close the session."""


class Watchdog(Callback):
    """End training with a `StepTimeoutError` when no step has ended for some time.

    Where every thread is, how full the queues are and which operation waits are logged first, and the error names the
    operation and the queue. Then the session is closed, so that a step that waits in TensorFlow returns; one that waits
    in Python, for example in the dataflow of a `FeedInput`, is interrupted.

    The time between epochs does not count. What callbacks do after a step does: if some of them evaluate the model
    every so many steps, ``timeout_secs`` must be longer than that takes. It costs a step one look at the clock.

    Python code that waits inside of an operation, as in ``tf.py_func`` or in a dataflow behind a `TFDatasetInput`, can
    be interrupted by nobody. The process is then ended with exit code 70, without any more ado.

    Args:
        timeout_secs: how long to wait for the end of a step.
        kill_after_secs: how long a step that is broken off may take to come back before the process is ended; None for
            ever.

    Raises:
        ConfigError: a number of seconds is not positive.
    """

    _chief_only = False

    def __init__(self, timeout_secs: float, *, kill_after_secs: float | None = 60.0) -> None:
        if timeout_secs <= 0 or (kill_after_secs is not None and kill_after_secs <= 0):
            raise ConfigError(
                f"Watchdog wants positive numbers of seconds, got timeout_secs={timeout_secs} and "
                f"kill_after_secs={kill_after_secs}"
            )
        self._timeout_secs = timeout_secs
        self._kill_after_secs = kill_after_secs
        self._waiting: WaitingOps | None = None
        self._is_watching = False
        self._last_sign = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _setup_graph(self) -> None:
        self._waiting = WaitingOps(self.graph, tf.nest.flatten(self.trainer.train_op or []))

    def _before_train(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="Watchdog", daemon=True)
        self._thread.start()

    def _before_epoch(self) -> None:
        self._last_sign = time.monotonic()
        self._is_watching = True

    def _trigger_step(self) -> None:
        self._last_sign = time.monotonic()

    def _after_epoch(self) -> None:
        self._is_watching = False

    def _after_train(self) -> None:
        self._is_watching = False
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(JOIN_TIMEOUT_SECS)

    def _watch(self) -> None:
        while not self._stop.wait(max(self._secs_left(), 0)):
            if self._secs_left() <= 0 and self._end_training():
                return

    def _secs_left(self) -> float:
        """Return how long to wait before looking again; nothing is left when no step has ended for too long."""
        if not self._is_watching:
            return self._timeout_secs
        return self._last_sign + self._timeout_secs - time.monotonic()

    def _end_training(self) -> bool:
        """Explain and break off the step, unless it ends meanwhile; return whether that was done."""
        trainer = self.trainer
        logger.error(f"No step has ended for {self._timeout_secs:g} seconds. This is where the threads are:")
        logger.error(format_thread_stacks())
        reason = self._find_reason()
        if self._secs_left() > 0:
            logger.info("A step has ended after all, and training goes on.")
            return False
        error = StepTimeoutError(
            f"no step has ended for {self._timeout_secs:g} seconds, in epoch {trainer.epoch_num} after global step "
            f"{trainer.global_step}: {reason}"
        )
        logger.error(f"The step is broken off: {error}")
        if self._kill_after_secs is not None:
            # A thread of its own: closing a session can hang, too.
            threading.Thread(target=self._end_process_if_stuck, name="Watchdog's last resort", daemon=True).start()
        trainer.interruption.fail(error)
        return True

    def _end_process_if_stuck(self) -> None:
        if not self.trainer.interruption.wait_until_left(self._kill_after_secs):
            logger.critical(
                f"The step did not come back within {self._kill_after_secs:g} seconds. The process is ended."
            )
            os._exit(EXIT_CODE)

    def _find_reason(self) -> str:
        if self._waiting is None:
            return "nothing is known of its operations"
        try:
            states = self._waiting.ask(self.trainer.sess)
        except (tf.errors.OpError, RuntimeError) as error:
            return f"the session does not answer ({error})"
        for state in states:
            logger.error(f"Queue {state.name} holds {state.size} elements.")
        return self._waiting.explain(states)
