"""Counters of epochs and steps, each step counted exactly once.

Steps are counted in the graph and in Python. The graph's global step, for schedules and checkpoints, is incremented in
the run of the train op and after it, so that no operation of the step sees two values, and a step is counted if and
only if it was made.
"""

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.types import Fetches
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_count

_remote = LazyModule("tpack.utils.remote.directories")


class TrainLoop:
    """Counters of one training.

    An epoch lasts from `before_epoch` until after `trigger_epoch`.

    Attributes:
        steps_per_epoch: steps in each epoch.
        starting_epoch: the first epoch of this run, counted from 1.
        max_epoch: the last epoch.
        starting_step: finished steps of the first epoch, from an earlier run.
        epoch_num: the current epoch; ``starting_epoch - 1`` before the first.
        local_step: finished steps of the current epoch.
        global_step: finished steps of all runs.
        num_coming: steps of the next or current run of the train op.
        is_epoch_over: whether nothing but saving is left of the current epoch.
    """

    def __init__(self) -> None:
        self.steps_per_epoch = 0
        self.starting_epoch = 1
        self.max_epoch = 0
        self.starting_step = 0
        self.epoch_num = 0
        self.local_step = 0
        self.global_step = 0
        self.num_coming = 1
        self.is_epoch_over = False

    def config(self, steps_per_epoch: int, starting_epoch: int, max_epoch: int, *, starting_step: int = 0) -> None:
        """Set the length of a training; raise a `ConfigError` where `check_numbers` does."""
        self.steps_per_epoch, self.starting_epoch, self.max_epoch = check_numbers(
            "train", steps_per_epoch, starting_epoch, max_epoch
        )
        self.starting_step = check_count("train", "starting_step", starting_step, minimum=0)
        self.epoch_num = starting_epoch - 1

    def start_epoch(self, epoch_num: int) -> None:
        """Start an epoch; the first one resumes the earlier run."""
        self.epoch_num = epoch_num
        self.is_epoch_over = False
        self.local_step = self.starting_step if epoch_num == self.starting_epoch else 0

    def finish_steps(self, num_steps: int) -> None:
        """Count finished steps."""
        self.local_step += num_steps
        self.global_step += num_steps

    def finish_epoch(self) -> None:
        """Mark the current epoch as finished but for saving."""
        self.is_epoch_over = True

    @property
    def epoch_finished(self) -> bool:
        """Whether all steps of the current epoch are finished."""
        return self.local_step >= self.steps_per_epoch


def check_numbers(
    owner: object, steps_per_epoch: object, starting_epoch: object, max_epoch: object
) -> tuple[int, int, int]:
    """Return the length of a training; raise a `ConfigError` unless the numbers are integers of at least 1, 1 and 0.

    Floats that are whole, such as 8.0 * 180000 // 500, are integers here: scripts compute the length.
    """

    def check(name: str, value: object, minimum: int) -> int:
        is_whole = isinstance(value, float) and value.is_integer()
        return check_count(owner, name, int(value) if is_whole else value, minimum=minimum)  # type: ignore[call-overload]

    return (
        check("steps_per_epoch", steps_per_epoch, 1),
        check("starting_epoch", starting_epoch, 1),
        check("max_epoch", max_epoch, 0),
    )


class StepCounter(Callback):
    """Counter of steps, in the graph and in the loop; the first callback of every trainer.

    The run of the train op increments the counter; a step of a user's ``run_step`` without one is counted by a run of
    its own. Where several steps are one run, each increments, and the run returns their number.

    Args:
        loop: the counters in Python.
        increments: count in the graph too; False where the global step is on a server, which counts.
    """

    _chief_only = False

    def __init__(self, loop: TrainLoop, *, increments: bool = True) -> None:
        self._loop = loop
        self._increments = increments
        self._train_op: Fetches = None
        self._fetches: tf.train.SessionRunArgs | None = None
        self._increment: tf.Operation | None = None
        self._counted = False
        self._num_made: tf.train.SessionRunArgs | None = None

    def count_by(self, num_made: tf.Tensor) -> None:
        """Count the steps of each run by a tensor of their number."""
        self._num_made = tf.train.SessionRunArgs(num_made)

    def _setup_graph(self) -> None:
        step = get_global_step_var()
        self._train_op = self.trainer.train_op
        self._increment = self._counted_in(step)
        if self._train_op is not None:
            with tf.control_dependencies(tf.nest.flatten(self._train_op)):
                after_train = self._counted_in(step)
            self._fetches = tf.train.SessionRunArgs(after_train)

    def _counted_in(self, step: tf.Variable) -> tf.Operation:
        return tf.assign_add(step, 1).op if self._increments else tf.no_op()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        carries = not self._counted and self._fetches is not None and ctx.original_args.fetches is self._train_op
        return (self._num_made or self._fetches) if carries else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if not self._counted and self._fetches is not None and ctx.original_args.fetches is self._train_op:
            self._counted = True
            self._loop.finish_steps(1 if values.results is None else int(values.results))

    def _with_several_steps(self) -> WithSteps | None:
        return None if self._fetches is None else WithSteps(each=(self._fetches.fetches,))

    def finish_step(self) -> None:
        """Count the finished step, unless a run of the train op did."""
        if not self._counted:
            self.trainer.sess.run(self._increment)
            self._loop.finish_steps(1)
        self._counted = False


class EpochEnd(Callback):
    """Marks the end of an epoch; the last callback of every trainer.

    A checkpoint that is saved earlier has an unfinished epoch: a resumed run calls the callbacks at the end of that
    epoch, such as validation. After training it waits until remote directories are written.
    """

    _chief_only = False
    # After callbacks that report, and those that save what a statistic selects.
    reads_statistics = True
    saves_training = True

    def __init__(self, loop: TrainLoop) -> None:
        self._loop = loop

    def _trigger_epoch(self) -> None:
        self._loop.finish_epoch()
        if _remote.is_loaded():
            _remote.check_directories()

    def _after_train(self) -> None:
        if _remote.is_loaded():
            _remote.finish_directories()
