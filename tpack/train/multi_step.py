"""Several steps in one session run, without Python in between, where no callback needs each step.

A step of a small model takes less time than the Python between two steps. With ``steps_per_call=100`` the graph makes
100 steps in a loop; they are the same bit for bit, and each advances the global step, schedules, moving averages and
random numbers. Callbacks are called between two runs. A run is shorter at the end of an epoch, or where a callback is
due, such as a periodic one. A signal ends it after the current step.
"""

import tensorflow.compat.v1 as tf

from tpack.callbacks.group import Callbacks
from tpack.compat.runtime import make_callable
from tpack.errors import ConfigError
from tpack.step.hooked_session import HookedSession
from tpack.step.loop_graph import LoopGraph
from tpack.tfutils.graph_lookup import get_global_step_value
from tpack.train.loop import StepCounter, TrainLoop
from tpack.types import Fetches, Session


class MultiStepRunner:
    """Runs of several steps, in the current graph, which callbacks have completed; the step is copied by `LoopGraph`.

    Args:
        steps_per_call: the most steps of a run.
        train_op: the operation of one step.
        callbacks: all callbacks of the training.

    Raises:
        ConfigError: A callback needs each step, or a step is fed.
    """

    def __init__(self, steps_per_call: int, train_op: Fetches, callbacks: Callbacks) -> None:
        part = callbacks.with_several_steps()
        if part is None:
            names = ", ".join(map(str, callbacks.seeing_each_step()))
            raise ConfigError(
                f"steps_per_call got {steps_per_call}: expected 1 with callbacks that need each step: {names}. Leave "
                "them out, use QueueInput or TFDatasetInput in place of FeedInput, or override _with_several_steps in "
                "your own callback"
            )
        self._steps_per_call = steps_per_call
        self._train_op = train_op
        self._steps_left = part.steps_left
        targets = [getattr(item, "op", item) for item in tf.nest.flatten(train_op)]
        self._several = LoopGraph([*targets, *part.each], part.last, goes_on=part.goes_on)

    @property
    def prefix(self) -> str:
        """The prefix of operations in the loop, before their names in a single step."""
        return self._several.prefix

    def count_by(self, counter: StepCounter) -> None:
        """Make a counter count the steps of each run."""
        counter.count_by(self._several.num_made)

    def run(self, session: HookedSession, loop: TrainLoop) -> int:
        """Make as many steps as one run can; return their number."""
        loop.num_coming = min(self._steps_per_call, loop.steps_per_epoch - loop.local_step)
        if self._steps_left is not None:
            loop.num_coming = min(loop.num_coming, self._steps_left())
        try:
            return session.run_several(self._train_op, self._several, loop.num_coming)
        except BaseException:
            self._count_before_failure(session.session, loop)
            raise

    def stop(self, session: Session) -> None:
        """End the current run after its current step; called from another thread."""
        self._several.is_stopped = True
        try:
            make_callable(session, targets=[self._several.stop], in_caller_thread=True)()
        except (RuntimeError, tf.errors.OpError):
            # The session is closed, so the run ends anyway.
            return

    @staticmethod
    def _count_before_failure(session: Session, loop: TrainLoop) -> None:
        try:
            with session.as_default():
                num_made = get_global_step_value() - loop.global_step
        except (RuntimeError, tf.errors.OpError):
            # The session is closed: the steps cannot be saved or read.
            return
        loop.finish_steps(num_made)
