"""How full an input queue is, as a summary: near its capacity the data keeps up, near zero the steps wait for it."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.input_source.base import InputSource
from tpack.tfutils.moving_summary import add_moving_summary

# A short memory: the average over about two steps.
DECAY = 0.5


class QueueSizeSummary(Callback):
    """Writes the moving average of the size of a queue, updated with every step.

    Args:
        source: the input source, whose name scope is used.
        queue: its queue.

    Creates:
        The summary ``queue_size`` in the name scope of the source.
    """

    _chief_only = False

    def __init__(self, source: InputSource, queue: Any) -> None:
        self._source = source
        self._queue = queue
        self._update: Any = None

    def _setup_graph(self) -> None:
        with self._source.cached_name_scope() as scope, tf.device("/device:CPU:0"):
            size = tf.cast(self._queue.size(), tf.float32, name="queue_size")
            # A collection of its own: the update belongs to the runs that read this queue and to no others.
            key = f"{scope}queue_size_update"
            add_moving_summary(size, collection=key, decay=DECAY)
        # One op is the same object at each step, which keeps the step on its fast path.
        self._update = tf.group(*tf.get_collection(key))

    def _before_run(self, ctx: Any) -> Any:
        return self._update
