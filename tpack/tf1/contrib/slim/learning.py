"""``slim.learning``: a train op that also counts the step and updates averages, and the loop that runs it.

The loop is on tpack's sessions: a failing input thread ends training with its error, training resumes from a checkpoint
in the directory, and Ctrl-C saves first.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataExhaustedError
from tpack.estimator.run_config import RunConfig
from tpack.estimator.session import SessionPlan, add_default_saver, model_session
from tpack.estimator.training import CheckpointWriter
from tpack.step.hooked_session import HookedSession
from tpack.step.step_timer import StepTimer
from tpack.tf1.contrib.layers.optimizers import add_gradients_summaries, clip_gradient_norms, multiply_gradients
from tpack.tfutils.summary import event_writer
from tpack.utils import logger
from tpack.utils.validation import check_count, shown

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
    "train",
    "train_step",
]

USE_DEFAULT = 0


def create_train_op(
    total_loss: tf.Tensor,
    optimizer: tf.train.Optimizer,
    global_step: Any = USE_DEFAULT,
    update_ops: Sequence[tf.Operation] | None = None,
    variables_to_train: Sequence[tf.Variable] | None = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: int | None = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> tf.Tensor:
    """Return the loss as a tensor that makes a step of training when it is computed.

    Args:
        total_loss: a scalar.
        optimizer: makes the step.
        global_step: counted with each step; None for no counting, 0 for that of the graph.
        update_ops: operations that run before the loss is computed; None for UPDATE_OPS.
        variables_to_train: None for all trainable variables.
        clip_gradient_norm: the largest norm of each gradient; 0 for no limit.
        summarize_gradients: summarise gradients and their norms.
        gate_gradients: of the optimizer.
        aggregation_method: of the optimizer.
        colocate_gradients_with_ops: of the optimizer.
        gradient_multipliers: factors of gradients by variables or their names.
        check_numerics: fail at a loss that is not a number.

    Raises:
        ConfigError: A variable is not trainable, or a factor's variable has no gradient.
    """
    if global_step is not None and not tf.is_tensor(global_step) and not isinstance(global_step, tf.Variable):
        global_step = tf.train.get_or_create_global_step()
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
    if updates:
        with tf.control_dependencies(list(dict.fromkeys(updates))):
            total_loss = tf.identity(total_loss)
    variables = _trained(variables_to_train)
    grads = optimizer.compute_gradients(
        total_loss,
        variables,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if gradient_multipliers:
        with tf.name_scope("multiply_grads"):
            grads = multiply_gradients(grads, gradient_multipliers)
    if clip_gradient_norm > 0:
        with tf.name_scope("clip_grads"):
            grads = clip_gradient_norms(grads, clip_gradient_norm)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(grads)
    # The loss before the step.
    with tf.control_dependencies([total_loss]):
        grad_updates = optimizer.apply_gradients(grads, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([grad_updates]):
            train_op = tf.identity(total_loss, name="control_dependency")
    tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


def train_step(
    sess: Any, train_op: tf.Tensor, global_step: tf.Variable, train_step_kwargs: Mapping[str, Any]
) -> tuple[float, bool]:
    """Make a step; return its loss and whether training stops.

    Args:
        sess: the session.
        train_op: the result of `create_train_op`.
        global_step: of the graph.
        train_step_kwargs: may have the tensors ``should_log`` and ``should_stop``, which are evaluated after the step.
    """
    start = time.perf_counter()
    total_loss, step = sess.run([train_op, global_step])
    asked = [name for name in ("should_log", "should_stop") if name in train_step_kwargs]
    answers = dict(zip(asked, sess.run([train_step_kwargs[name] for name in asked]), strict=True)) if asked else {}
    if answers.get("should_log"):
        logger.info(f"Global step {step}: loss {total_loss:.4f}, {time.perf_counter() - start:.3f} seconds per step.")
    return total_loss, bool(answers.get("should_stop", False))


def train(
    train_op: tf.Tensor,
    logdir: str | None,
    train_step_fn: Callable[..., tuple[float, bool]] = train_step,
    train_step_kwargs: Any = USE_DEFAULT,
    log_every_n_steps: int | None = 1,
    graph: tf.Graph | None = None,
    master: str = "",
    is_chief: bool = True,
    global_step: tf.Variable | None = None,
    number_of_steps: int | None = None,
    init_op: Any = USE_DEFAULT,
    init_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    local_init_op: Any = USE_DEFAULT,
    init_fn: Callable[[tf.Session], Any] | None = None,
    ready_op: Any = USE_DEFAULT,
    summary_op: Any = USE_DEFAULT,
    save_summaries_secs: float | None = 600,
    summary_writer: Any = USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: tf.train.Saver | None = None,
    save_interval_secs: float | None = 600,
    sync_optimizer: Any = None,
    session_config: tf.ConfigProto | None = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> float | None:
    """Train from the newest checkpoint, if any, to a number of steps, a step's stop signal, or the end of data.

    Args:
        train_op: the result of `create_train_op`.
        logdir: the directory of checkpoints and summaries; None for neither.
        train_step_fn: makes a step: of the session, the train op, the global step and the next argument; returns the
            loss and whether to stop.
        train_step_kwargs: 0 for those of `train_step`.
        log_every_n_steps: steps between two lines of the log.
        graph: None for the default one.
        master: has to be empty: training is in this process.
        is_chief: whether checkpoints and summaries are written.
        global_step: None for that of the graph.
        number_of_steps: the global step to stop at; None for no limit.
        init_op: initialises variables; 0 for TensorFlow's own.
        init_feed_dict: its feeds.
        local_init_op: initialises local variables and tables; 0 for TensorFlow's own.
        init_fn: called with the session if there is no checkpoint, such as the result of `assign_from_checkpoint_fn`.
        ready_op: returns the names of uninitialised variables; 0 for TensorFlow's own.
        summary_op: 0 for all summaries of the graph, None for none.
        save_summaries_secs: seconds between two summaries; None or 0 for none.
        summary_writer: 0 for a writer to ``logdir``, None for none.
        startup_delay_steps: has to be 0, as there is one process.
        saver: None for one of all variables.
        save_interval_secs: seconds between two checkpoints; None or 0 for none.
        sync_optimizer: has to be None, as there is one process.
        session_config: None for tpack's own.
        session_wrapper: wraps the session for ``train_step_fn``.
        trace_every_n_steps: has to be None; the callback `GraphProfiler` of tpack traces steps.
        ignore_live_threads: has no effect: threads of input queues are ended.

    Returns:
        The last loss; None without a step.

    Raises:
        ConfigError: An argument is out of range, or is for several processes.
    """
    refused = {"master": master, "startup_delay_steps": startup_delay_steps, "sync_optimizer": sync_optimizer}
    for name, value in {**refused, "trace_every_n_steps": trace_every_n_steps}.items():
        if value:
            raise ConfigError(f"slim.learning.train got {name}={shown(value)}: expected none, in one process")
    if number_of_steps is not None:
        check_count("slim.learning.train", "number_of_steps", number_of_steps)
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        step = tf.train.get_or_create_global_step() if global_step is None else global_step
        if is_default(train_step_kwargs):
            train_step_kwargs = _step_kwargs(step, number_of_steps, log_every_n_steps, logdir)
        scaffold = tf.train.Scaffold(
            init_op=_given(init_op),
            init_feed_dict=init_feed_dict,
            init_fn=None if init_fn is None else lambda scaffold, session: init_fn(session),
            ready_op=_given(ready_op),
            local_init_op=_given(local_init_op),
            summary_op=tf.summary.merge_all() if is_default(summary_op) else summary_op,
            saver=saver,
        )
        writes = bool(logdir) and is_chief
        config = RunConfig(save_checkpoints_secs=(save_interval_secs or None) if writes else None)
        add_default_saver(scaffold, config)
        writer = CheckpointWriter(logdir or "", config)
        plan = SessionPlan(scaffold, tf.train.latest_checkpoint(logdir) if logdir else None, session_config)
        has_events = writes and is_default(summary_writer)
        with event_writer(logdir) if has_events else nullcontext(summary_writer or None) as events:  # type: ignore[arg-type]
            summaries = _Summaries(plan, events, save_summaries_secs)
            loop = _Loop(train_step_fn, train_op, step, train_step_kwargs, number_of_steps)
            with model_session(graph, plan, []) as session, session.session.as_default():
                wrapped = session if session_wrapper is None else session_wrapper(session)
                return loop.run(session, wrapped, scaffold, writer, summaries)


class _Summaries:
    """Summaries at intervals."""

    def __init__(self, plan: SessionPlan, events: Any, every_secs: float | None) -> None:
        self._plan = plan
        self._events = events
        self._timer = StepTimer(every_secs=every_secs)

    def write(self, session: HookedSession, step: int, *, is_last: bool = False) -> None:
        """Write summaries, if due or the last time."""
        summary_op = self._plan.scaffold.summary_op
        if self._events is not None and summary_op is not None and (is_last or self._timer.is_due(step)):
            self._events.add_summary(session.session.run(summary_op), step)
            self._timer.done(step)


class _Loop:
    def __init__(
        self,
        train_step_fn: Callable[..., tuple[float, bool]],
        train_op: tf.Tensor,
        global_step: tf.Variable,
        kwargs: Mapping[str, Any],
        last_step: int | None,
    ) -> None:
        self._make_step = train_step_fn
        self._arguments = (train_op, global_step, kwargs)
        self._global_step = global_step
        self._last_step = math.inf if last_step is None else last_step

    def run(
        self,
        session: HookedSession,
        wrapped: Any,
        scaffold: tf.train.Scaffold,
        writer: CheckpointWriter,
        summaries: _Summaries,
    ) -> float | None:
        """Make steps, and return the last loss."""
        loss = None
        step = int(session.session.run(self._global_step))
        writer.begin(session.session, scaffold.saver, step)
        should_stop = step >= self._last_step
        try:
            while not should_stop:
                loss, should_stop = self._make_step(wrapped, *self._arguments)
                step = int(session.session.run(self._global_step))
                writer.after_step(session.session, step)
                summaries.write(session, step)
        except DataExhaustedError:
            logger.info("The data ended.")
        except KeyboardInterrupt:
            writer.interrupted(session.session, int(session.session.run(self._global_step)))
            raise
        writer.end(session.session, int(session.session.run(self._global_step)))
        return loss


def _step_kwargs(
    step: tf.Variable, number_of_steps: int | None, log_every_n_steps: int | None, logdir: str | None
) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    with tf.name_scope("train_step"):
        if number_of_steps:
            kwargs["should_stop"] = tf.greater_equal(step, number_of_steps)
        if log_every_n_steps:
            kwargs["should_log"] = tf.equal(tf.mod(step, log_every_n_steps), 0)
    if logdir:
        kwargs["logdir"] = logdir
    return kwargs


def _trained(variables_to_train: Sequence[tf.Variable] | None) -> list[tf.Variable]:
    trainable = tf.trainable_variables()
    if variables_to_train is None:
        return trainable
    for var in variables_to_train:
        if not any(known is var for known in trainable):
            raise ConfigError(f"got variables_to_train with {shown(var)}: expected trainable variables")
    return list(variables_to_train)


def is_default(value: Any) -> bool:
    """Tell whether an argument stands for TensorFlow's own default."""
    return isinstance(value, int) and value == USE_DEFAULT


def _given(value: Any) -> Any:
    return None if is_default(value) else value
