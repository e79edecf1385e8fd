"""Steps without Python: so many of them are one run of the session, if nobody wants to see each.

A step of a small model takes less time than Python needs between two steps. With ``steps_per_call=100`` the graph makes
100 steps at a time, by itself: they are the same steps, bit for bit, and the global step, schedules, moving averages
and random numbers go on with each of them. Callbacks are called between two runs. A run is shorter where an epoch ends,
or where a callback has to act, such as one that is triggered every so many steps. A signal ends it after the step that
is being made, and training stands where it would after that step.
"""

import tensorflow.compat.v1 as tf

from tpack.callbacks.group import Callbacks
from tpack.compat import make_callable
from tpack.errors import ConfigError
from tpack.step.hooked_session import HookedSession
from tpack.step.loop_graph import LoopGraph
from tpack.tfutils.graph_lookup import get_global_step_value
from tpack.train.loop import StepCounter, TrainLoop
from tpack.types import Fetches, Session


class MultiStepRunner:
    """Makes steps, several in each run, in the current graph, to which callbacks have added all that they want.

    Args:
        steps_per_call: the most steps of a run.
        train_op: what a step runs.
        callbacks: all callbacks of the training.

    Creates:
        A copy of the step in a loop, as `LoopGraph` does.

    Raises:
        ConfigError: A callback wants to see each step, or a step is fed data.
    """

    def __init__(self, steps_per_call: int, train_op: Fetches, callbacks: Callbacks) -> None:
        part = callbacks.with_several_steps()
        if part is None:
            names = ", ".join(map(str, callbacks.seeing_each_step()))
            raise ConfigError(
                f"steps_per_call is {steps_per_call}, and these have to see each step: {names}. Leave them out, take "
                "QueueInput or TFDatasetInput in place of FeedInput, let a callback of your own override "
                "_with_several_steps, or make one step per call"
            )
        self._steps_per_call = steps_per_call
        self._train_op = train_op
        self._steps_left = part.steps_left
        targets = [getattr(item, "op", item) for item in tf.nest.flatten(train_op)]
        self._several = LoopGraph([*targets, *part.each], part.last, goes_on=part.goes_on)

    @property
    def prefix(self) -> str:
        """What stands before the name of an operation of a step in that of the one that runs."""
        return self._several.prefix

    def count_by(self, counter: StepCounter) -> None:
        """Let the steps of each run be counted."""
        counter.count_by(self._several.num_made)

    def run(self, session: HookedSession, loop: TrainLoop) -> int:
        """Make as many steps as can be made at once; return how many they were."""
        loop.num_coming = min(self._steps_per_call, loop.steps_per_epoch - loop.local_step)
        if self._steps_left is not None:
            loop.num_coming = min(loop.num_coming, self._steps_left())
        try:
            return session.run_several(self._train_op, self._several, loop.num_coming)
        except BaseException:
            _count_before_failure(session.session, loop)
            raise

    def stop(self, session: Session) -> None:
        """Let the run that is going on be over when the step is that is being made; called from another thread."""
        self._several.is_stopped = True
        try:
            make_callable(session, targets=[self._several.stop], in_caller_thread=True)()
        except (RuntimeError, tf.errors.OpError):
            # Somebody has closed the session, and the run ends anyway.
            return


def _count_before_failure(session: Session, loop: TrainLoop) -> None:
    """Count the steps that were made before the one that failed; they are counted in the graph."""
    try:
        with session.as_default():
            num_made = get_global_step_value() - loop.global_step
    except (RuntimeError, tf.errors.OpError):
        # The session is closed, and nobody can save or ask any more.
        return
    loop.finish_steps(num_made)
