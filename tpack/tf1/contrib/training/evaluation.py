"""Evaluation of checkpoints, as ``tf.contrib.training`` had it: some steps, and then what they came to."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_count

__all__ = [
    "StopAfterNEvalsHook",
    "SummaryAtEndHook",
    "evaluate_once",
    "evaluate_repeatedly",
    "get_or_create_eval_step",
]


def get_or_create_eval_step() -> Any:
    """Return the variable that counts the steps of an evaluation.

    Creates:
        ``eval_step`` in LOCAL_VARIABLES and EVAL_STEP, if there is none.

    Raises:
        ConfigError: There are several.
    """
    found = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ConfigError(f"get_or_create_eval_step found {len(found)} variables in EVAL_STEP: expected one")
    if found:
        return found[0]
    return tf.get_variable(
        "eval_step",
        shape=[],
        dtype=tf.int64,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Ends an evaluation after some steps.

    Args:
        num_evals: how many; None is until the data end.
        log_progress: whether each tenth of them is logged.
    """

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals if num_evals is None else check_count(self, "num_evals", num_evals)
        self._log_progress = log_progress
        self._evals_completed: Any = None

    def begin(self) -> None:
        """Find the variable that counts, if nobody has told it."""
        if self._evals_completed is None:
            self._evals_completed = get_or_create_eval_step()

    def before_run(self, run_context: Any) -> Any:
        """Ask for the count."""
        return tf.train.SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """End the evaluation, if there were enough steps."""
        done = run_values.results["evals_completed"]
        if self._num_evals is None:
            return
        if self._log_progress and (done % max(self._num_evals // 10, 1) == 0 or done == self._num_evals):
            logger.info(f"Evaluation [{done}/{self._num_evals}]")
        if done >= self._num_evals:
            run_context.request_stop()

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._evals_completed = updated_eval_step


class SummaryAtEndHook(tf.train.SessionRunHook):
    """Writes summaries when an evaluation is over.

    Args:
        log_dir: where they go; None wants a writer.
        summary_writer: writes them.
        summary_op: the summaries; None is all of the graph.
        feed_dict: what they are fed with.

    Raises:
        ConfigError: There is neither a folder nor a writer.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        summary_writer: Any = None,
        summary_op: Any = None,
        feed_dict: Any = None,
    ) -> None:
        if log_dir is None and summary_writer is None:
            raise ConfigError("SummaryAtEndHook got neither log_dir nor summary_writer: expected one of them")
        self._log_dir = log_dir
        self._summary_writer = summary_writer
        self._summary_op = summary_op
        self._feed_dict = feed_dict
        self._global_step: Any = None

    def begin(self) -> None:
        """Find the summaries and the global step."""
        if self._summary_writer is None:
            self._summary_writer = tf.summary.FileWriterCache.get(self._log_dir)
        if self._summary_op is None:
            self._summary_op = tf.summary.merge_all()
        self._global_step = tf.train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Write the graph down."""
        self._summary_writer.add_graph(session.graph)

    def end(self, session: Any) -> None:
        """Write the summaries."""
        if self._summary_op is None:
            return
        summary, step = session.run([self._summary_op, self._global_step], self._feed_dict)
        self._summary_writer.add_summary(summary, step)
        self._summary_writer.flush()


def evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
) -> Any:
    """Evaluate a checkpoint.

    Args:
        checkpoint_path: the checkpoint; None evaluates the values that variables begin with.
        master: the session's target.
        scaffold: a ``tf.train.Scaffold``.
        eval_ops: what a step runs, until a hook ends it or the data do; None makes no step.
        feed_dict: what a step is fed with.
        final_ops: what is computed in the end.
        final_ops_feed_dict: what that is fed with.
        hooks: hooks of the session, such as a `StopAfterNEvalsHook`.
        config: of the session.

    Returns:
        The values of ``final_ops``.
    """
    run = _Evaluation(eval_ops, feed_dict, final_ops, final_ops_feed_dict, list(hooks or []))
    return run.of(checkpoint_path, master, scaffold, config)


def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Any:
    """Evaluate each checkpoint of a folder when it comes.

    Args:
        checkpoint_dir: the folder.
        master: the session's target.
        scaffold: a ``tf.train.Scaffold``.
        eval_ops: what a step runs, until a hook ends it or the data do; None makes no step.
        feed_dict: what a step is fed with.
        final_ops: what is computed in the end.
        final_ops_feed_dict: what that is fed with.
        eval_interval_secs: the least time between two evaluations.
        hooks: hooks of the session, such as a `StopAfterNEvalsHook`.
        config: of the session.
        max_number_of_evaluations: how many; None is without end.
        timeout: how long a checkpoint is waited for, in seconds; None is without end.
        timeout_fn: asked when that is over, whether to stop waiting.

    Returns:
        The values of ``final_ops`` of the last checkpoint; None if none came.
    """
    run = _Evaluation(eval_ops, feed_dict, final_ops, final_ops_feed_dict, list(hooks or []))
    paths = tf.train.checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    values = None
    for path in islice(paths, max_number_of_evaluations):
        values = run.of(path, master, scaffold, config)
    return values


class _Evaluation:
    """The operations of evaluations, which are made once, and sessions that run them."""

    def __init__(self, eval_ops: Any, feed_dict: Any, final_ops: Any, final_feed: Any, hooks: list[Any]) -> None:
        self._feed_dict = feed_dict
        self._final = (final_ops, final_feed)
        self._hooks = hooks
        self._eval_ops = None
        step = get_or_create_eval_step()
        if eval_ops is not None:
            # Counted after the step, and told to the hooks as it is then.
            with tf.control_dependencies(tf.nest.flatten(eval_ops)):
                counted = step.assign_add(1, read_value=True)
            for hook in hooks:
                if isinstance(hook, StopAfterNEvalsHook):
                    hook._set_evals_completed_tensor(counted)
            self._eval_ops = [eval_ops, counted]

    def of(self, path: str | None, master: str, scaffold: Any, config: Any) -> Any:
        """Return what a checkpoint comes to."""
        final = tf.train.FinalOpsHook(*self._final)
        creator = tf.train.ChiefSessionCreator(
            scaffold=scaffold, checkpoint_filename_with_path=path, master=master, config=config
        )
        with tf.train.MonitoredSession(session_creator=creator, hooks=[*self._hooks, final]) as session:
            while self._eval_ops is not None and not session.should_stop():
                session.run(self._eval_ops, self._feed_dict)
        return final.final_ops_values
