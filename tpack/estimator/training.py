"""The training loop of an Estimator, with checkpoints ``model.ckpt-<step>`` and summaries in the model's directory."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataExhaustedError, GraphBuildError, NumericsError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.distributed_run import ClusterRun
from tpack.estimator.run_config import RunConfig
from tpack.estimator.session import QueueCoordinator, SessionPlan, add_default_saver, model_session
from tpack.estimator.spec import operation_of
from tpack.graph_copy import op_kinds
from tpack.step.hooked_session import HookedSession
from tpack.step.step_timer import StepTimer
from tpack.tfutils.checkpoint import CheckpointSeries
from tpack.tfutils.summary import create_scalar_summary, event_writer
from tpack.types import Fetches
from tpack.utils import logger
from tpack.utils.validation import check_instances

_STILL_STEPS = 100
"""The number of steps without an increment of the global step before a warning."""
_STUCK_STEPS = 10_000
"""The number of them before an error, if training is to end at a global step."""
_LAST_WORDS_SECS = 5.0
"""The time limit for queue runners to apply the last step."""
_CHECKPOINT_NAME = "model.ckpt"


class NanLossError(NumericsError, tf.train.NanLossDuringTrainingError):
    """The loss is NaN: tpack's error, and that of TensorFlow's estimators."""

    def __str__(self) -> str:
        """Return the message, which TensorFlow's error lacks."""
        return str(self.args[0])


@dataclass(frozen=True)
class TrainLimits:
    """The start and the end of training, apart from the end of the data.

    Attributes:
        last_step: the global step to stop at; None for no limit.
        checkpoint: the prefix of the first checkpoint; None for initial values.
        cluster: the cooperation of several processes; None for a single process.
    """

    last_step: int | None
    checkpoint: str | None
    cluster: ClusterRun | None = None

    @property
    def writes(self) -> bool:
        """Whether this process writes checkpoints and summaries."""
        return self.cluster is None or self.cluster.is_chief


def train_model(
    parts: ModelParts,
    model: BuiltModel,
    limits: TrainLimits,
    hooks: Sequence[tf.train.SessionRunHook],
    listeners: Sequence[tf.train.CheckpointSaverListener],
) -> None:
    """Train a model that was built into the current graph.

    Args:
        parts: the directory and the intervals.
        model: a model built for training.
        limits: the start and the end.
        hooks: the user's session hooks; a ``tf.train.CheckpointSaverHook`` replaces the checkpoints.
        listeners: listeners of checkpoints.

    Raises:
        ConfigError: There are listeners and a ``CheckpointSaverHook``.
        GraphBuildError: Training is to end at a global step that nothing increments.
        NumericsError: The loss is NaN.
        KeyboardInterrupt: Raised by the user, after a checkpoint of the finished steps.
    """
    spec, config = model.spec, parts.config
    hooks = [*hooks, *spec.training_hooks]
    if limits.writes:
        hooks += spec.training_chief_hooks
    else:
        hooks = [hook for hook in hooks if not isinstance(hook, tf.train.CheckpointSaverHook)]
        listeners, config = (), config.replace(save_checkpoints_steps=None, save_checkpoints_secs=None)
    if any(isinstance(hook, tf.train.CheckpointSaverHook) for hook in hooks):
        if listeners:
            raise ConfigError("train got saving_listeners and a CheckpointSaverHook; pass the listeners to the hook")
        config = config.replace(save_checkpoints_steps=None, save_checkpoints_secs=None)
    writer = CheckpointWriter(parts.model_dir, config, listeners, writes=limits.writes, cluster=limits.cluster)
    writer.build()
    add_default_saver(spec.scaffold, config)
    fetches = _step_fetches(model)
    inputs = model.inputs
    plan = SessionPlan(
        spec.scaffold,
        limits.checkpoint,
        config.session_config,
        inputs.initializer,
        cluster=limits.cluster,
        elements=inputs.elements,
    )
    writes_events = limits.writes and (config.save_summary_steps or config.log_step_count_steps)
    graph = tf.get_default_graph()
    with event_writer(parts.model_dir) if writes_events else nullcontext() as events:
        if events is not None:
            events.add_graph(graph)
        queues = _Queues()
        with model_session(graph, plan, [*hooks, queues]) as session, session.session.as_default():
            if limits.last_step is not None:
                _check_counted(model.global_step, spec.scaffold.saver)
            start = int(session.session.run(model.global_step))
            writer.begin(session.session, spec.scaffold.saver, start)
            reports = _Reports(spec.scaffold.summary_op if limits.writes else None, events, config, start)
            loop = _Loop(session, fetches, reports, writer, limits.cluster)
            with _saved_when_interrupted(writer, session.session, model.global_step):
                loop.run(start, limits.last_step)
                if limits.cluster is not None:
                    limits.cluster.meet_at_end(loop.step, limits.last_step)
                loop.note_queues(queues, model.global_step)
                writer.end(session.session, loop.step)
    if loop.step == start:
        logger.warning(f"Training ended at global step {start} without a step.")
    else:
        logger.info(f"Training ended at global step {loop.step} with a loss of {loop.loss:.6g}.")


class _Queues(tf.train.SessionRunHook):
    """The last hook, which knows whether queue runners work beside the steps."""

    def __init__(self) -> None:
        self._coordinator: tf.train.Coordinator | None = None

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Keep the coordinator, with which all threads are registered."""
        self._coordinator = coord

    @property
    def is_at_work(self) -> bool:
        """Whether there are queue runners, none of them failed or ended."""
        coordinator = self._coordinator
        return isinstance(coordinator, QueueCoordinator) and coordinator.has_threads and not coordinator.should_stop()


class CheckpointWriter:
    """A writer of checkpoints at the start of training, when due, and at the end or an interruption.

    Checkpoints of earlier runs in the directory count towards the number to keep.

    Args:
        directory: the directory.
        config: gives the intervals.
        listeners: called before and after each checkpoint.
        writes: whether this process writes; the writers of other workers write nothing.
        cluster: the workers, which compare variables of their own before each checkpoint.

    Raises:
        ConfigError: An object is not a listener.
    """

    def __init__(
        self,
        directory: str,
        config: RunConfig,
        listeners: Sequence[tf.train.CheckpointSaverListener] = (),
        *,
        writes: bool = True,
        cluster: ClusterRun | None = None,
    ) -> None:
        self._replicas = cluster if cluster is not None and cluster.has_replicas else None
        # The step after which the workers find out whether the chief saves; None if it never does.
        self._next_meeting: int | None = None
        kind = tf.train.CheckpointSaverListener
        expected = "a list of tf.train.CheckpointSaverListener objects"
        self._directory = directory
        self._listeners = check_instances("an Estimator", "saving_listeners", listeners, kind, expected=expected)
        self._timer = StepTimer(every_steps=config.save_checkpoints_steps, every_secs=config.save_checkpoints_secs)
        self._is_on = bool(config.save_checkpoints_steps or config.save_checkpoints_secs)
        self._writes = writes
        self._series: CheckpointSeries | None = None
        self.wants_stop = False

    def build(self) -> None:
        """Call the listeners' ``begin``, which may add to the current graph."""
        for listener in self._listeners:
            listener.begin()

    def begin(self, session: tf.Session, saver: tf.train.Saver, step: int) -> None:
        """Save the first checkpoint with the saver of the finalized scaffold."""
        # Others' series would take the chief's unfinished files for leftovers. Checkpoints of earlier runs count also
        # where a user's hook writes with this saver.
        series = CheckpointSeries(saver, self._directory, _CHECKPOINT_NAME) if self._writes else None
        if self._is_on:
            self._series = series
        if self._agrees(session, step, wanted=self._series is not None) and self._series is not None:
            self._save(self._series, session, step)

    def after_step(self, session: tf.Session, step: int) -> None:
        """Save if a checkpoint is due."""
        if self._replicas is not None and (self._next_meeting is None or step < self._next_meeting):
            return
        is_due = self._series is not None and self._timer.is_due(step)
        if self._agrees(session, step, wanted=is_due) and self._series is not None and is_due:
            self._save(self._series, session, step)

    def _agrees(self, session: tf.Session, step: int, *, wanted: bool) -> bool:
        """Return whether the chief saves; workers with variables of their own compare them before."""
        if self._replicas is None:
            return wanted
        own = [wanted, step + self._timer.steps_left(step) if self._series is not None else None]
        wanted, self._next_meeting = self._replicas.follow_chief(f"whether step {step} is saved", own)
        if wanted:
            self._replicas.compare_values(session, step)
        return wanted

    def end(self, session: tf.Session, step: int) -> None:
        """Save the last step, if it is not saved."""
        is_due = self._series is not None and step != self._series.saved_step
        if self._agrees(session, step, wanted=is_due) and self._series is not None and is_due:
            self._save(self._series, session, step)
        if self._series is not None:
            for listener in self._listeners:
                listener.end(session, step)

    def interrupted(self, session: tf.Session, step: int) -> None:
        """Save the last step, if it is not saved, without calling listeners, which may be slow."""
        if self._replicas is not None and not self._replicas.compare_last_values(session, step):
            return
        if self._series is not None and step != self._series.saved_step:
            self._write(self._series, session, step)

    def _save(self, series: CheckpointSeries, session: tf.Session, step: int) -> None:
        for listener in self._listeners:
            listener.before_save(session, step)
        self._write(series, session, step)
        # Not any(), which would skip listeners.
        answers = [listener.after_save(session, step) for listener in self._listeners]
        self.wants_stop = self.wants_stop or any(answers)

    def _write(self, series: CheckpointSeries, session: tf.Session, step: int) -> None:
        logger.info(f"Saved the model to {series.save(session, step)}.")
        self._timer.done(step)


class _Reports:
    """Summaries and log lines at their intervals."""

    def __init__(
        self, summary_op: tf.Tensor | None, events: tf.summary.FileWriter | None, config: RunConfig, start: int
    ) -> None:
        self.summary_op = summary_op
        self._events = events
        # The first step is always summarised.
        before_first = start + 1 - (config.save_summary_steps or 1)
        self._summary_timer = StepTimer(every_steps=config.save_summary_steps, step=before_first)
        self._log_timer = StepTimer(every_steps=config.log_step_count_steps, step=start)

    def wants_summary(self, next_step: int) -> bool:
        """Tell whether the next step fetches the summaries."""
        return self.summary_op is not None and self._summary_timer.is_due(next_step)

    def after_step(self, step: int, loss: float, summary: bytes | None) -> None:
        """Report a step."""
        if summary is not None:
            self._write(summary, step)
        if self._summary_timer.is_due(step):
            self._write(create_scalar_summary("loss", loss), step)
            self._summary_timer.done(step)
        if self._log_timer.is_due(step):
            rate = self._log_timer.rate(step)
            self._write(create_scalar_summary("global_step/sec", rate), step)
            logger.info(f"Global step {step}: loss {loss:.6g}, {rate:.4g} steps per second.")
            self._log_timer.done(step)

    def _write(self, summary: bytes | tf.Summary, step: int) -> None:
        if self._events is not None:
            self._events.add_summary(summary, step)


class _Loop:
    """The loop over steps."""

    def __init__(
        self,
        session: HookedSession,
        fetches: Fetches,
        reports: _Reports,
        writer: CheckpointWriter,
        cluster: ClusterRun | None = None,
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._fetches = fetches
        self._with_summary = (fetches, reports.summary_op)
        self._reports = reports
        self._writer = writer
        self._num_still = 0
        self.step = 0
        self.loss = math.nan

    def run(self, start: int, last_step: int | None) -> None:
        """Run steps until the limit, the end of the data, or a request to stop."""
        self.step = start
        while not self._session.should_stop() and not self._writer.wants_stop:
            if last_step is not None and self.step >= last_step:
                return
            if last_step is not None and self._num_still >= _STUCK_STEPS:
                still = f"the global step has been {self.step} for {self._num_still} steps"
                raise GraphBuildError(f"{still}: expected the train_op to increment it up to {last_step}")
            try:
                self._run_step()
            except DataExhaustedError:
                logger.info(f"The data ended at global step {self.step}.")
                return

    def note_queues(self, queues: _Queues, global_step: tf.Variable) -> None:
        """Update the step from queue runners, in which `SyncReplicasOptimizer` applies gradients.

        If the last step is not counted yet, wait for it for some time.
        """
        step = int(self._session.session.run(global_step))
        end = time.monotonic() + _LAST_WORDS_SECS
        while self._num_still and step == self.step and queues.is_at_work and time.monotonic() < end:
            step = int(self._session.session.run(global_step))
        self.step = step

    def _run_step(self) -> None:
        if self._cluster is not None:
            self._cluster.begin_step(self.step + 1)
        if self._reports.wants_summary(self.step + 1):
            (_, step, loss), summary = self._session.run(self._with_summary)
        else:
            (_, step, loss), summary = self._session.run(self._fetches), None
        self._note_step(int(step))
        self.loss = float(loss)
        if math.isnan(self.loss):
            raise NanLossError(f"the loss is NaN after global step {self.step}: training diverged")
        self._reports.after_step(self.step, self.loss, summary)
        self._writer.after_step(self._session.session, self.step)

    def _note_step(self, step: int) -> None:
        self._num_still = self._num_still + 1 if step == self.step else 0
        if self._num_still == _STILL_STEPS:
            logger.warning(
                f"The global step has been {step} for {_STILL_STEPS} steps: the train_op must increment it, as with "
                "minimize(loss, global_step=tf.train.get_global_step())"
            )
        self.step = step


def _check_counted(global_step: tf.Variable, saver: tf.train.Saver) -> None:
    """Refuse to train to a global step that nothing in its graph increments, which would never end."""
    graph = global_step.graph
    components = getattr(global_step, "components", [global_step])
    handles = {component.op for component in components}
    setting = {component.initializer for component in components}
    waiting = [graph.get_operation_by_name(saver.as_saver_def().restore_op_name)]
    while waiting:
        setting.add(waiting[-1])
        waiting.extend(op for op in waiting.pop().control_inputs if op not in setting)
    users = [user for op in handles for output in op.outputs for user in output.consumers()]
    if not any(user.type not in op_kinds.READING_VARIABLES and user not in setting for user in users):
        raise GraphBuildError(
            "nothing in the model increments the global step, at which training is to end; use "
            "minimize(loss, global_step=tf.train.get_global_step())"
        )


@contextmanager
def _saved_when_interrupted(writer: CheckpointWriter, session: tf.Session, global_step: tf.Variable) -> Iterator[None]:
    """Save the finished steps if Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        # The graph may have counted a step that Python has not seen yet.
        step = int(session.run(global_step))
        logger.warning(f"Training was interrupted at global step {step}.")
        writer.interrupted(session, step)
        raise


def _step_fetches(model: BuiltModel) -> tuple[tf.Operation, tf.Tensor, tf.Tensor]:
    """Return the fetches of each step; the global step is read after the train op."""
    train_op = operation_of(model.spec.train_op)
    with tf.control_dependencies([train_op]):
        step = tf.identity(model.global_step.read_value(), name="global_step_after_train_op")
    return train_op, step, model.spec.loss
