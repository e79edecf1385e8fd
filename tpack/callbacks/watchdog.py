"""An end, with an explanation, to a training that hangs.

TensorFlow does not tell which operations of a run are still to come. But few kinds of operations wait at all, and for
those that wait for a queue its size says whether they do. With that, and with where every thread of the process is, a
`Watchdog` names what a step waits for.
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
from tpack.errors import CallbackError, ConfigError, StepTimeoutError
from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors
from tpack.types import Interruption
from tpack.utils import logger
from tpack.utils.process_exit import exit_now
from tpack.utils.validation import check_arguments, check_count

_EXIT_CODE = 70
"""What `sysexits.h` calls an internal software error."""

_JOIN_TIMEOUT_SECS = 5.0
"""How long the end of training waits for the thread, which may be about to close the session."""

_ASK_TIMEOUT_MS = 2000
"""How long to wait for the sizes of queues from a session that may be stuck altogether."""


@check_arguments
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
        CallbackError: in `before_train`, the trainer has no interruption.
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
            raise CallbackError(f"{self} breaks off steps by the trainer's interruption, which its main_loop() makes")
        self._thread = threading.Thread(target=self._watch, args=(interruption,), name="Watchdog", daemon=True)
        self._thread.start()

    def _before_epoch(self) -> None:
        self._last_sign = time.monotonic()
        self._is_watching = True

    def _trigger_step(self) -> None:
        self._last_sign = time.monotonic()

    def _with_several_steps(self) -> WithSteps:
        # A run of several steps is what has to end in time.
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
        """Return how long to wait before looking again; nothing is left when no step has ended for too long."""
        if not self._is_watching:
            return self._timeout_secs
        return self._last_sign + self._timeout_secs - time.monotonic()

    def _end_training(self, interruption: Interruption) -> bool:
        """Explain and break off the step, unless it ends meanwhile; return whether that was done."""
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
            # A thread of its own: closing a session can hang, too.
            args, name = (interruption, self._kill_after_secs), "Watchdog's last resort"
            threading.Thread(target=_end_process_if_stuck, args=args, name=name, daemon=True).start()
        interruption.fail(error)
        return True

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


@check_arguments
class SessionRunTimeout(Callback):
    """End training with a `StepTimeoutError` when a step takes too long.

    It costs a step nothing. It sees only what runs in the session, and does not tell what the step waited for: for that
    there is `Watchdog`.

    Args:
        timeout_in_ms: how long a step may take.

    Raises:
        ConfigError: ``timeout_in_ms`` is no positive integer.
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
    """One queue at one moment.

    Attributes:
        name: the queue's operation.
        size: how many elements it holds.
        takers: names of the operations that dequeue from it.
    """

    name: str
    size: int
    takers: tuple[str, ...]


class _WaitingOps:
    """Knows the queues of a graph and the operations of a step that may wait.

    Args:
        graph: the graph, to which an operation is added for each queue.
        targets: what a step runs.
    """

    def __init__(self, graph: tf.Graph, targets: Sequence[tf.Operation | tf.Tensor]) -> None:
        needed = ancestors(targets)
        queues = [op for op in graph.get_operations() if op.type in op_kinds.QUEUES]
        self._names = [op.name for op in queues]
        self._sizes = [_size_of(op) for op in queues]
        self._takers = [_takers_of(op, needed) for op in queues]
        self._others = sorted(f"{op.name} ({op.type})" for op in needed if op.type in op_kinds.WAITING)

    def ask(self, session: tf.Session) -> list[_QueueState]:
        """Return the state of each queue.

        Args:
            session: may be in the middle of a step.

        Raises:
            tf.errors.OpError: the session does not answer.
        """
        if not self._sizes:
            return []
        sizes = session.run(self._sizes, options=tf.RunOptions(timeout_in_ms=_ASK_TIMEOUT_MS))
        return [
            _QueueState(name, int(size), takers)
            for name, size, takers in zip(self._names, sizes, self._takers, strict=True)
        ]

    def explain(self, states: Sequence[_QueueState]) -> str:
        """Return what a step that does not end waits for, as far as it can be known."""
        empty = [state for state in states if state.size == 0 and state.takers]
        if empty:
            return "; ".join(f"operation {', '.join(s.takers)} waits for data: queue {s.name} is empty" for s in empty)
        if self._others:
            return f"these operations may wait: {', '.join(self._others)}"
        return "no operation of the step is known to wait, see where the threads are"


def _size_of(queue: tf.Operation) -> tf.Tensor:
    with tf.device(queue.device or None):
        return tf.raw_ops.QueueSizeV2(handle=queue.outputs[0])


def _takers_of(queue: tf.Operation, needed: set[tf.Operation]) -> tuple[str, ...]:
    """Return who takes from a queue, of those that a step needs if it needs one."""
    takers = [op for op in queue.outputs[0].consumers() if op.type in op_kinds.DEQUEUES]
    return tuple(op.name for op in takers if op in needed) or tuple(op.name for op in takers)


def _format_thread_stacks() -> str:
    """Return the stack of each thread that runs Python; the main thread's comes last, where it is seen first in a log.

    Threads of TensorFlow are among them while they run Python, as they do in ``tf.py_func``.
    """
    known = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    parts = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: item[0] == main):
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"{_describe(known.get(ident))}:\n{stack}")
    return "\n".join(parts)


def _describe(thread: threading.Thread | None) -> str:
    if thread is None:
        return "a thread that Python did not start"
    return f"{'daemon ' if thread.daemon else ''}thread {thread.name}"
