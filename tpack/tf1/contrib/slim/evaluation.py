"""``slim.evaluation``: evaluate a checkpoint, or each new one that training writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.session import SessionPlan, model_session
from tpack.tf1.contrib.framework.variables import get_variables_to_restore
from tpack.tf1.contrib.slim.learning import USE_DEFAULT, is_default
from tpack.tf1.signatures import like, parameter
from tpack.tfutils.summary import event_writer
from tpack.utils import logger
from tpack.utils.validation import check_count, shown

__all__ = ["checkpoints_iterator", "evaluate_once", "evaluation_loop", "wait_for_new_checkpoint"]


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
    """Wait until a directory has another newest checkpoint; return None at the timeout.

    Args:
        checkpoint_dir: the directory.
        last_checkpoint: the known one.
        seconds_to_sleep: has no effect: TensorFlow looks every second.
        timeout: seconds to wait; None for no limit.
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
    summary_op: Any = USE_DEFAULT,
    summary_op_feed_dict: Mapping[tf.Tensor, Any] | None = None,
    variables_to_restore: Any = None,
    session_config: tf.ConfigProto | None = None,
    hooks: Sequence[tf.train.SessionRunHook] | None = None,
) -> Any:
    """Evaluate a checkpoint; return the value of ``final_op``, or None.

    Args:
        master: has to be empty: evaluation is in this process.
        checkpoint_path: the checkpoint.
        logdir: the directory of summaries; None for none.
        num_evals: the number of runs of ``eval_op``.
        initial_op: run once before.
        initial_op_feed_dict: its feeds.
        eval_op: such as the updates of metrics.
        eval_op_feed_dict: its feeds.
        final_op: run once after, such as the values of metrics.
        final_op_feed_dict: its feeds.
        summary_op: 0 for all summaries of the graph, None for none.
        summary_op_feed_dict: its feeds.
        variables_to_restore: variables, or a dict of them by their names in the checkpoint; None for all.
        session_config: None for tpack's own.
        hooks: session hooks.

    Raises:
        ConfigError: ``master`` is not empty, or no checkpoint is given.
        CheckpointError: The checkpoint does not fit the graph.
    """
    given = locals()
    if not checkpoint_path:
        raise ConfigError(f"evaluate_once got checkpoint_path={shown(checkpoint_path)}: expected a path")
    return _Evaluation(**given).run(checkpoint_path)


@like(
    evaluate_once,
    without="checkpoint_path",
    after={
        "master": {"": parameter("checkpoint_dir", str)},
        "initial_op_feed_dict": {"init_fn": None},
        "variables_to_restore": {
            "": parameter("eval_interval_secs", float, 60),
            "max_number_of_evaluations": parameter("max_number_of_evaluations", int | None, None),
        },
        "session_config": {"timeout": parameter("timeout", float | None, None), "timeout_fn": None},
    },
)
def evaluation_loop(
    checkpoint_dir: str,
    init_fn: Any,
    eval_interval_secs: float,
    max_number_of_evaluations: int | None,
    timeout: float | None,
    timeout_fn: Callable[[], bool] | None,
    **given: Any,
) -> Any:
    """Evaluate each new checkpoint of a directory, beginning with the newest; return the last value of ``final_op``.

    Args:
        checkpoint_dir: the directory.
        init_fn: has to be None: variables come from the checkpoint.
        eval_interval_secs: the least seconds between the beginnings of two evaluations.
        max_number_of_evaluations: None for no limit.
        timeout: seconds to wait for a checkpoint; None for no limit.
        timeout_fn: called at the timeout; True ends the loop.
        **given: see `evaluate_once`.

    Raises:
        ConfigError: An argument is out of range, or set where it has to be empty.
    """
    if init_fn is not None:
        raise ConfigError("evaluation_loop got init_fn: expected None, since all variables come from the checkpoint")
    evaluation = _Evaluation(**given)
    result = None
    found = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for number, path in enumerate(found, 1):
        result = evaluation.run(path)
        if number == max_number_of_evaluations:
            break
    return result


class _Evaluation:
    """An evaluation of checkpoints, with the arguments of `evaluate_once`; the graph is finalized at the first."""

    def __init__(
        self, *, master: str, logdir: str | None, num_evals: int, variables_to_restore: Any, **given: Any
    ) -> None:
        if master:
            raise ConfigError(f"slim.evaluation got master={shown(master)}: expected '', for this process")
        self._given, self._logdir = given, logdir
        self._num_evals = check_count("slim.evaluation", "num_evals", num_evals)
        self._step = tf.train.get_or_create_global_step()
        if is_default(given["summary_op"]):
            given["summary_op"] = tf.summary.merge_all()
        saver = tf.train.Saver(variables_to_restore or get_variables_to_restore())
        self._scaffold = tf.train.Scaffold(saver=saver)

    def run(self, path: str) -> Any:
        """Evaluate a checkpoint."""
        plan = SessionPlan(self._scaffold, path, self._given["session_config"])
        graph = tf.get_default_graph()
        writes = self._logdir is not None and self._given["summary_op"] is not None
        with (
            event_writer(str(self._logdir)) if writes else nullcontext() as events,
            model_session(graph, plan, list(self._given["hooks"] or ())) as session,
        ):

            def run(kind: str) -> Any:
                fetches = self._given[f"{kind}_op"]
                return None if fetches is None else session.run(fetches, self._given[f"{kind}_op_feed_dict"])

            for kind in ["initial", *["eval"] * self._num_evals]:
                run(kind)
            result = run("final")
            if events is not None:
                events.add_summary(run("summary"), int(session.run(self._step)))
        logger.info(f"Evaluated {path}.")
        return result
