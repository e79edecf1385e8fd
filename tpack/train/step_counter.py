"""Count each step exactly once, in the graph and in Python.

The graph's global step is what schedules read and checkpoints hold. It is incremented in the same run as the train op
and after it, so that no op of the step can see two values and a step is counted if and only if it was made.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.train.loop import TrainLoop


class StepCounter(Callback):
    """The first callback of every trainer.

    A ``run_step`` of the user's own may run the train op, something else or several things. The run of the train op
    carries the increment along; a step without one is counted by a run of its own when it is over.

    Args:
        loop: the counters to keep in agreement with the graph's.
    """

    _chief_only = False

    def __init__(self, loop: TrainLoop) -> None:
        self._loop = loop
        self._train_op: Any = None
        self._fetches: Any = None
        self._increment: Any = None
        self._counted = False

    def _setup_graph(self) -> None:
        step = get_global_step_var()
        self._train_op = self.trainer.train_op
        self._increment = tf.assign_add(step, 1).op
        if self._train_op is not None:
            with tf.control_dependencies(tf.nest.flatten(self._train_op)):
                after_train = tf.assign_add(step, 1).op
            self._fetches = tf.train.SessionRunArgs(after_train)

    def _before_run(self, ctx: Any) -> Any:
        carries = not self._counted and self._fetches is not None and ctx.original_args.fetches is self._train_op
        return self._fetches if carries else None

    def _after_run(self, ctx: Any, values: Any) -> None:
        if not self._counted and self._fetches is not None and ctx.original_args.fetches is self._train_op:
            self._counted = True
            self._loop.finish_step()

    def finish_step(self) -> None:
        """Count the step that is over, unless a run of the train op did."""
        if not self._counted:
            self.trainer.sess.run(self._increment)
            self._loop.finish_step()
        self._counted = False
