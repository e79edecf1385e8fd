"""``slim.evaluation``: evaluate a checkpoint, or each new one that training writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.session import SessionPlan, model_session
from tpack.tf1.contrib.framework.variables import get_variables_to_restore
from tpack.tfutils.summary import event_writer
from tpack.utils import logger
from tpack.utils.validation import check_count, shown

__all__ = ["checkpoints_iterator", "evaluate_once", "evaluation_loop", "wait_for_new_checkpoint"]

_USE_DEFAULT = 0


def checkpoints_iterator(
    checkpoint_dir: str,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the newest checkpoint of a directory and then each that is new, as ``tf.train.checkpoints_iterator``."""
    return tf.train.checkpoints_iterator(checkpoint_dir, min_interval_secs, timeout, timeout_fn)


def wait_for_new_checkpoint(
    checkpoint_dir: str, last_checkpoint: str | None = None, seconds_to_sleep: float = 1, timeout: float | None = None
) -> str | None:
    """Wait until a directory has another newest checkpoint.

    Args:
        checkpoint_dir: the directory.
        last_checkpoint: the one that is known.
        seconds_to_sleep: has no effect: TensorFlow looks every second.
        timeout: seconds to wait; None for ever.

    Returns:
        The checkpoint, or None when the time is over.
    """
    found = (path for path in checkpoints_iterator(checkpoint_dir, timeout=timeout) if path != last_checkpoint)
    return next(found, None)


def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    eval_op: Any = None,
    eval_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    final_op: Any = None,
    final_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    variables_to_restore: Any = None,
    session_config: tf.ConfigProto | None = None,
    hooks: Sequence[tf.train.SessionRunHook] | None = None,
) -> Any:
    """Evaluate a checkpoint.

    Args:
        master: has to be empty: evaluation is in this process.
        checkpoint_path: the checkpoint.
        logdir: where summaries go; None for no summaries.
        num_evals: how often ``eval_op`` is run.
        initial_op: run once before.
        initial_op_feed_dict: what is fed to it.
        eval_op: such as the updates of metrics.
        eval_op_feed_dict: what is fed to it.
        final_op: run once behind, such as the values of metrics.
        final_op_feed_dict: what is fed to it.
        summary_op: 0 for all summaries of the graph, None for none.
        summary_op_feed_dict: what is fed to it.
        variables_to_restore: variables, or a dict of them by their names in the checkpoint; None for all.
        session_config: None for tpack's own.
        hooks: session hooks.

    Returns:
        The value of ``final_op``, None without one.

    Raises:
        ConfigError: ``master`` is not empty, or there is no checkpoint.
        CheckpointError: The checkpoint does not fit the graph.
    """
    if not checkpoint_path:
        raise ConfigError(f"evaluate_once wants the path of a checkpoint, got {shown(checkpoint_path)}")
    evaluation = _Evaluation(
        initial=(initial_op, initial_op_feed_dict),
        eval=(eval_op, eval_op_feed_dict),
        final=(final_op, final_op_feed_dict),
        summary=(summary_op, summary_op_feed_dict),
        num_evals=num_evals,
    )
    return evaluation.prepare(master, variables_to_restore).run(checkpoint_path, logdir, session_config, hooks or ())


def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    init_fn: Callable[..., Any] | None = None,
    eval_op: Any = None,
    eval_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    final_op: Any = None,
    final_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: tf.ConfigProto | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
    hooks: Sequence[tf.train.SessionRunHook] | None = None,
) -> Any:
    """Evaluate the newest checkpoint of a directory and then each new one; see `evaluate_once` for the other arguments.

    Args:
        master: see `evaluate_once`.
        checkpoint_dir: the directory.
        logdir: see `evaluate_once`.
        num_evals: see `evaluate_once`.
        initial_op: see `evaluate_once`.
        initial_op_feed_dict: see `evaluate_once`.
        init_fn: has to be None: variables come from the checkpoint.
        eval_op: see `evaluate_once`.
        eval_op_feed_dict: see `evaluate_once`.
        final_op: see `evaluate_once`.
        final_op_feed_dict: see `evaluate_once`.
        summary_op: see `evaluate_once`.
        summary_op_feed_dict: see `evaluate_once`.
        variables_to_restore: see `evaluate_once`.
        eval_interval_secs: seconds between the beginnings of two evaluations at least.
        max_number_of_evaluations: how many there are; None for no limit.
        session_config: see `evaluate_once`.
        timeout: seconds to wait for a checkpoint; None for ever.
        timeout_fn: asked when they are over; True ends it.
        hooks: see `evaluate_once`.

    Returns:
        The last value of ``final_op``, None without one or without a checkpoint.

    Raises:
        ConfigError: An argument cannot work.
    """
    if init_fn is not None:
        raise ConfigError("evaluation_loop takes all variables from the checkpoint, expected init_fn=None")
    evaluation = _Evaluation(
        initial=(initial_op, initial_op_feed_dict),
        eval=(eval_op, eval_op_feed_dict),
        final=(final_op, final_op_feed_dict),
        summary=(summary_op, summary_op_feed_dict),
        num_evals=num_evals,
    )
    evaluation.prepare(master, variables_to_restore)
    result = None
    found = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for number, path in enumerate(found, 1):
        result = evaluation.run(path, logdir, session_config, hooks or ())
        if number == max_number_of_evaluations:
            break
    return result


_Fetch = tuple[Any, Mapping[tf.Tensor, Any] | None]


class _Evaluation:
    """What is run on each checkpoint: pairs of what is fetched and what is fed.

    Args:
        initial: once before.
        eval: several times.
        final: once behind, for the result.
        summary: once behind.
        num_evals: how often.
    """

    def __init__(self, *, initial: _Fetch, eval: _Fetch, final: _Fetch, summary: _Fetch, num_evals: int) -> None:
        self._initial, self._eval, self._final, self._summary = initial, eval, final, summary
        self._num_evals = check_count("slim.evaluation", "num_evals", num_evals)

    def prepare(self, master: str, variables_to_restore: Any) -> "_Evaluation":
        """Build what is needed for all checkpoints; after the first the graph is finalized."""
        if master:
            raise ConfigError(f"slim.evaluation works in this process, expected an empty master, got {shown(master)}")
        self._step = tf.train.get_or_create_global_step()
        summary_op, feeds = self._summary
        if isinstance(summary_op, int) and summary_op == _USE_DEFAULT:
            self._summary = tf.summary.merge_all(), feeds
        saver = tf.train.Saver(variables_to_restore or get_variables_to_restore())
        self._scaffold = tf.train.Scaffold(saver=saver)
        return self

    def run(
        self,
        path: str,
        logdir: str | None,
        session_config: tf.ConfigProto | None,
        hooks: Sequence[tf.train.SessionRunHook],
    ) -> Any:
        """Evaluate a checkpoint."""
        plan = SessionPlan(self._scaffold, path, session_config)
        graph = tf.get_default_graph()
        writes = logdir is not None and self._summary[0] is not None
        with (
            event_writer(str(logdir)) if writes else nullcontext() as events,
            model_session(graph, plan, list(hooks)) as session,
        ):
            for fetches, feeds in [self._initial, *[self._eval] * self._num_evals]:
                if fetches is not None:
                    session.run(fetches, feeds)
            result = None if self._final[0] is None else session.run(*self._final)
            if events is not None:
                events.add_summary(session.run(*self._summary), int(session.run(self._step)))
        logger.info(f"Evaluated {path}.")
        return result
