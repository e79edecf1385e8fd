"""End a training that hangs, with an explanation.

TensorFlow does not report pending operations, but few kinds of operations wait, and a queue's size shows whether its
readers do. With that and the stack of every thread, `Watchdog` names what a step waits for.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.errors import CallbackError, StepTimeoutError
from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors
from tpack.types import Interruption
from tpack.utils import logger
from tpack.utils.process_exit import exit_now
from tpack.utils.validation import check_arguments, check_count, check_number

_EXIT_CODE = 70
"""Internal software error, as in `sysexits.h`."""

_JOIN_TIMEOUT_SECS = 5.0
"""Timeout for the thread at the end of training; it may be closing the session."""

_ASK_TIMEOUT_MS = 2000
"""Timeout for the queues' sizes; the session may be stuck."""


@check_arguments
class Watchdog(Callback):
    """End training with a `StepTimeoutError` when no step has ended for some time.

    The stacks of all threads, the sizes of queues and the waiting operation are logged first; the error names operation
    and queue. Then a step that waits in TensorFlow ends with the session, which is closed, and a step that waits in
    Python, such as in the dataflow of a `FeedInput`, is interrupted. Python code inside an operation, as in
    ``tf.py_func`` or behind a `TFDatasetInput`, cannot be interrupted: the process then ends with exit code 70.

    Time between epochs does not count; callbacks after a step do, so ``timeout_secs`` must exceed an evaluation between
    steps. A step pays one look at the clock.

    Args:
        timeout_secs: the time limit of a step.
        kill_after_secs: the time limit of an interrupted step before the process is ended; None for no limit.

    Raises:
        ConfigError: a number of seconds is not positive.
        CallbackError: in `before_train`, the trainer has no interruption.
    """

    _chief_only = False

    def __init__(self, timeout_secs: float, *, kill_after_secs: float | None = 60.0) -> None:
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, 0, is_low_allowed=False)
        if kill_after_secs is not None:
            check_number(self, "kill_after_secs", kill_after_secs, 0, is_low_allowed=False)
        self._kill_after_secs = kill_after_secs
        self._waiting: _WaitingOps | None = None
        self._is_watching = False
        self._last_sign = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _setup_graph(self) -> None:
        self._waiting = _WaitingOps(self.graph, tf.nest.flatten(self.trainer.train_op or []))

    def _before_train(self) -> None:
        interruption = self.trainer.interruption
        if interruption is None:
            raise CallbackError(f"{self} got a trainer without interruption: expected a trainer whose main_loop() runs")
        self._thread = threading.Thread(target=self._watch, args=(interruption,), name="Watchdog", daemon=True)
        self._thread.start()

    def _before_epoch(self) -> None:
        self._last_sign = time.monotonic()
        self._is_watching = True

    def _trigger_step(self) -> None:
        self._last_sign = time.monotonic()

    def _with_several_steps(self) -> WithSteps:
        # The timeout then holds for a run of several steps.
        return WithSteps()

    def _after_epoch(self) -> None:
        self._is_watching = False

    def _after_train(self) -> None:
        self._is_watching = False
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_JOIN_TIMEOUT_SECS)

    def _watch(self, interruption: Interruption) -> None:
        while not self._stop.wait(max(self._secs_left(), 0)):
            if self._secs_left() <= 0 and self._end_training(interruption):
                return

    def _secs_left(self) -> float:
        return self._timeout_secs + (self._last_sign - time.monotonic() if self._is_watching else 0)

    def _end_training(self, interruption: Interruption) -> bool:
        """Explain and interrupt the step; return False if it ends meanwhile."""
        trainer = self.trainer
        logger.error(f"No step has ended for {self._timeout_secs:g} seconds. This is where the threads are:")
        logger.error(_format_thread_stacks())
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
            # In a thread, since closing a session can hang, too.
            args, name = (interruption, self._kill_after_secs), "Watchdog's last resort"
            threading.Thread(target=_end_process_if_stuck, args=args, name=name, daemon=True).start()
        interruption.fail(error)
        return True

    def _find_reason(self) -> str:
        if self._waiting is None:
            return "its operations are unknown"
        try:
            states = self._waiting.ask(self.trainer.sess)
        except (tf.errors.OpError, RuntimeError) as error:
            return f"the session does not answer ({error})"
        for state in states:
            logger.error(f"Queue {state.name} holds {state.size} elements.")
        return self._waiting.explain(states)


@check_arguments
class SessionRunTimeout(Callback):
    """End training with a `StepTimeoutError` when a step takes too long.

    It costs a step nothing, but covers only the session's run and does not name the waiting operation, as `Watchdog`
    does.

    Args:
        timeout_in_ms: the time limit of a step.

    Raises:
        ConfigError: ``timeout_in_ms`` is not a positive integer.
    """

    _chief_only = False

    def __init__(self, timeout_in_ms: int) -> None:
        check_count(self, "timeout_in_ms", timeout_in_ms)
        self._request = tf.train.SessionRunArgs(fetches=None, options=tf.RunOptions(timeout_in_ms=timeout_in_ms))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return self._request


def _end_process_if_stuck(interruption: Interruption, timeout_secs: float) -> None:
    if not interruption.wait_until_left(timeout_secs):
        exit_now(_EXIT_CODE, f"The step did not come back within {timeout_secs:g} seconds. The process is ended.")


@dataclass(frozen=True)
class _QueueState:
    """One queue at one moment: its operation, its number of elements, and its dequeue operations."""

    name: str
    size: int
    takers: tuple[str, ...]


class _WaitingOps:
    """The queues of a graph, which get an operation for their size, and a step's operations that may wait."""

    def __init__(self, graph: tf.Graph, targets: Sequence[tf.Operation | tf.Tensor]) -> None:
        needed = ancestors(targets)
        queues = [op for op in graph.get_operations() if op.type in op_kinds.QUEUES]
        self._names = [op.name for op in queues]
        self._sizes = []
        self._takers: list[tuple[str, ...]] = []
        for queue in queues:
            with tf.device(queue.device or None):
                self._sizes.append(tf.raw_ops.QueueSizeV2(handle=queue.outputs[0]))
            takers = [op for op in queue.outputs[0].consumers() if op.type in op_kinds.DEQUEUES]
            # The step's own dequeue operations, or else all.
            self._takers.append(tuple(op.name for op in takers if op in needed) or tuple(op.name for op in takers))
        self._others = sorted(f"{op.name} ({op.type})" for op in needed if op.type in op_kinds.WAITING)

    def ask(self, session: tf.Session) -> list[_QueueState]:
        """Return the state of each queue; ``tf.errors.OpError`` if the session, in its step, does not answer."""
        if not self._sizes:
            return []
        sizes = session.run(self._sizes, options=tf.RunOptions(timeout_in_ms=_ASK_TIMEOUT_MS))
        return [
            _QueueState(name, int(size), takers)
            for name, size, takers in zip(self._names, sizes, self._takers, strict=True)
        ]

    def explain(self, states: Sequence[_QueueState]) -> str:
        """Return what an endless step waits for, as far as known."""
        empty = [state for state in states if state.size == 0 and state.takers]
        if empty:
            return "; ".join(f"operation {', '.join(s.takers)} waits for data: queue {s.name} is empty" for s in empty)
        if self._others:
            return f"these operations may wait: {', '.join(self._others)}"
        return "no operation of the step is known to wait, see where the threads are"


def _format_thread_stacks() -> str:
    """Return the stacks of all threads that run Python, also of TensorFlow's, the main thread's last."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    parts = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: item[0] == main):
        thread = known.get(ident)
        name = f"{'daemon ' if thread.daemon else ''}thread {thread.name}" if thread else "a thread of another library"
        parts.append(f"{name}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(parts)
