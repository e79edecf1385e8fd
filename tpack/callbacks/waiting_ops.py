"""What a step may be waiting for: queues and how full they are, and operations that wait for others.

TensorFlow does not tell which operations of a run are still to come. But few kinds of operations wait at all, and for
those that wait for a queue its size says whether they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tfutils.dependency import ancestors

QUEUE_TYPES = ("FIFOQueueV2", "PaddingFIFOQueueV2", "PriorityQueueV2", "RandomShuffleQueueV2")
DEQUEUE_TYPES = ("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2")
OTHER_WAITING_TYPES = ("IteratorGetNext", "Unstage", "CollectiveReduce", "CollectiveReduceV2", "CollectiveGatherV2")
PYTHON_TYPES = ("PyFunc", "PyFuncStateless", "EagerPyFunc")

ASK_TIMEOUT_MS = 2000
"""How long to wait for the sizes of queues from a session that may be stuck altogether."""


@dataclass(frozen=True)
class QueueState:
    """One queue at one moment.

    Attributes:
        name: the queue's operation.
        size: how many elements it holds.
        takers: names of the operations that take from it.
    """

    name: str
    size: int
    takers: tuple[str, ...]


class WaitingOps:
    """Knows the queues of a graph and the operations of a step that may wait.

    Args:
        graph: the graph, to which an operation is added for each queue.
        targets: what a step runs.
    """

    def __init__(self, graph: Any, targets: Sequence[Any]) -> None:
        needed = ancestors(targets)
        queues = [op for op in graph.get_operations() if op.type in QUEUE_TYPES]
        self._names = [op.name for op in queues]
        self._sizes = [_size_of(op) for op in queues]
        self._takers = [_takers_of(op, needed) for op in queues]
        self._others = sorted(
            f"{op.name} ({op.type})" for op in needed if op.type in (*OTHER_WAITING_TYPES, *PYTHON_TYPES)
        )

    def ask(self, session: Any) -> list[QueueState]:
        """Return the state of each queue.

        Args:
            session: may be in the middle of a step.

        Raises:
            tf.errors.OpError: the session does not answer.
        """
        if not self._sizes:
            return []
        sizes = session.run(self._sizes, options=tf.RunOptions(timeout_in_ms=ASK_TIMEOUT_MS))
        return [
            QueueState(name, int(size), takers)
            for name, size, takers in zip(self._names, sizes, self._takers, strict=True)
        ]

    def explain(self, states: Sequence[QueueState]) -> str:
        """Return what a step that does not end waits for, as far as it can be known."""
        empty = [state for state in states if state.size == 0 and state.takers]
        if empty:
            return "; ".join(f"operation {', '.join(s.takers)} waits for data: queue {s.name} is empty" for s in empty)
        if self._others:
            return f"these operations may wait: {', '.join(self._others)}"
        return "no operation of the step is known to wait, see where the threads are"


def _size_of(queue: Any) -> Any:
    with tf.device(queue.device or None):
        return tf.raw_ops.QueueSizeV2(handle=queue.outputs[0])


def _takers_of(queue: Any, needed: set[Any]) -> tuple[str, ...]:
    """Return who takes from a queue, of those that a step needs if it needs one."""
    takers = [op for op in queue.outputs[0].consumers() if op.type in DEQUEUE_TYPES]
    return tuple(op.name for op in takers if op in needed) or tuple(op.name for op in takers)
