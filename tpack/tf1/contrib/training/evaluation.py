"""``tf.contrib.training``: evaluation of checkpoints in some steps."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.signatures import like, parameter
from tpack.utils import logger
from tpack.utils.validation import check_count


def get_or_create_eval_step() -> Any:
    """Return the variable that counts the steps of an evaluation; raise ConfigError if there are several.

    Creates:
        ``eval_step`` in LOCAL_VARIABLES and EVAL_STEP, unless it exists.
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
    """Ends an evaluation after ``num_evals`` steps, or with the data for None; logs each tenth if ``log_progress``."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals if num_evals is None else check_count(self, "num_evals", num_evals)
        self._log_progress = log_progress
        self._evals_completed: Any = None

    def begin(self) -> None:
        """Find the counting variable, unless it is set."""
        if self._evals_completed is None:
            self._evals_completed = get_or_create_eval_step()

    def before_run(self, run_context: Any) -> Any:
        """Fetch the count."""
        return tf.train.SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """End the evaluation after enough steps."""
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
    """Writes summaries, all of the graph by default, at the end of an evaluation.

    Raises:
        ConfigError: There is neither a directory nor a writer.
    """

    def __init__(
        self, log_dir: str | None = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None
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
        """Write the graph."""
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
    """Evaluate a checkpoint, or initial values for None; return the values of ``final_ops``, computed at the end.

    ``eval_ops`` is repeated until a hook, such as a `StopAfterNEvalsHook`, or the data end it; None for no step.
    """
    run = _Evaluation(eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks)
    return run.of(checkpoint_path, master, scaffold, config)


@like(
    evaluate_once,
    without="checkpoint_path",
    after={
        "": {"": parameter("checkpoint_dir", str)},
        "final_ops_feed_dict": {"": parameter("eval_interval_secs", float, 60)},
        "config": {
            "max_number_of_evaluations": parameter("max_number_of_evaluations", int | None, None),
            "timeout": parameter("timeout", float | None, None),
            "timeout_fn": None,
        },
    },
)
def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str,
    scaffold: Any,
    eval_interval_secs: float,
    config: Any,
    max_number_of_evaluations: int | None,
    timeout: float | None,
    timeout_fn: Callable[[], bool] | None,
    **given: Any,
) -> Any:
    """Evaluate each new checkpoint of a directory; return ``final_ops`` of the last one, or None.

    Evaluations are at least ``eval_interval_secs`` apart. After ``timeout`` seconds without a checkpoint
    ``timeout_fn`` is called, and True ends the loop; None is no limit. See `evaluate_once` for the rest.
    """
    run = _Evaluation(**given)
    paths = tf.train.checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    values = None
    for path in islice(paths, max_number_of_evaluations):
        values = run.of(path, master, scaffold, config)
    return values


class _Evaluation:
    """The operations of evaluations, made once, and sessions that run them."""

    def __init__(
        self, eval_ops: Any, feed_dict: Any, final_ops: Any, final_ops_feed_dict: Any, hooks: Sequence[Any] | None
    ) -> None:
        self._feed_dict = feed_dict
        self._final = (final_ops, final_ops_feed_dict)
        self._hooks = hooks = list(hooks or [])
        self._eval_ops = None
        step = get_or_create_eval_step()
        if eval_ops is not None:
            # The hooks get the count after the step.
            with tf.control_dependencies(tf.nest.flatten(eval_ops)):
                counted = step.assign_add(1, read_value=True)
            for hook in hooks:
                if isinstance(hook, StopAfterNEvalsHook):
                    hook._set_evals_completed_tensor(counted)
            self._eval_ops = [eval_ops, counted]

    def of(self, path: str | None, master: str, scaffold: Any, config: Any) -> Any:
        """Return the final values of a checkpoint."""
        final = tf.train.FinalOpsHook(*self._final)
        creator = tf.train.ChiefSessionCreator(
            scaffold=scaffold, checkpoint_filename_with_path=path, master=master, config=config
        )
        with tf.train.MonitoredSession(session_creator=creator, hooks=[*self._hooks, final]) as session:
            while self._eval_ops is not None and not session.should_stop():
                session.run(self._eval_ops, self._feed_dict)
        return final.final_ops_values
