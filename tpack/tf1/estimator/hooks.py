"""Hooks for an Estimator's training: early stopping, evaluation in between, and a last step.

Early stopping reads the event files that `Estimator.evaluate` writes, those of earlier runs included.
"""

import collections
import glob
import operator
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import results_in
from tpack.estimator.inputs import InputFn
from tpack.tf1.signatures import like, parameter
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_instance, shown

Results: TypeAlias = Mapping[int, Mapping[str, Any]]
Compare: TypeAlias = Callable[[float, float], bool]
_EVENT_FILES = "*.tfevents.*"


@check_arguments
class InMemoryEvaluatorHook(tf.train.SessionRunHook):
    """Evaluates the model in training after the first step, after every ``every_n_iter`` steps, and at the end.

    Args:
        estimator: the model in training.
        input_fn: as for `Estimator.evaluate`.
        steps: the number of batches; None for all.
        hooks: session hooks of the evaluation.
        name: of the evaluation.
        every_n_iter: steps between two evaluations.

    Raises:
        ConfigError: A number is not positive, or an argument of another kind.

    Source:
        ``tf.estimator.experimental``, which passes values from session to session; here a temporary file does.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        self._estimator = check_instance(self, "estimator", estimator, Estimator)
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = hooks
        self._name = name
        self._every = check_count(self, "every_n_iter", every_n_iter)
        self._num_steps = 0
        self._saver: tf.train.Saver = None

    def begin(self) -> None:
        """Make the saver that passes values on."""
        self._saver = tf.train.Saver(max_to_keep=1)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Evaluate, if it is due."""
        if self._num_steps % self._every == 0:
            self._evaluate(run_context.session)
        self._num_steps += 1

    def end(self, session: tf.Session) -> None:
        """Evaluate the final model."""
        self._evaluate(session)

    def _evaluate(self, session: tf.Session) -> None:
        with tempfile.TemporaryDirectory(prefix="tpack-in-memory-") as directory:
            path = os.path.join(directory, "model.ckpt")
            self._saver.save(session, path, write_meta_graph=False, write_state=False)
            self._estimator.evaluate(self._input_fn, self._steps, self._hooks, path, self._name)


@check_arguments
def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> tf.train.SessionRunHook:
    """Return a hook that ends training at a global step.

    Args:
        estimator: the model in training.
        last_step: the global step.
        wait_after_file_check_secs: not used; it is for the workers of a cluster.
    """
    check_instance("make_stop_at_checkpoint_step_hook", "estimator", estimator, Estimator)
    return tf.train.StopAtStepHook(last_step=check_count("make_stop_at_checkpoint_step_hook", "last_step", last_step))


@check_arguments
def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that calls a function from time to time to decide whether training ends.

    Args:
        estimator: the model in training.
        should_stop_fn: takes no arguments.
        run_every_secs: seconds between two calls. Either this or the steps can be given.
        run_every_steps: steps between two calls.

    Raises:
        ConfigError: Both or none are given.

    Example:
        estimator.train(input_fn, hooks=[make_early_stopping_hook(estimator, lambda: os.path.exists("stop"))])
    """
    check_instance("make_early_stopping_hook", "estimator", estimator, Estimator)
    if (run_every_secs is None) == (run_every_steps is None):
        raise ConfigError(
            f"make_early_stopping_hook got run_every_secs={run_every_secs!r} and run_every_steps={run_every_steps!r}: "
            "expected one of them"
        )
    return _StoppingHook(should_stop_fn, tf.train.SecondOrStepTimer(run_every_secs, run_every_steps))


@check_arguments
def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric was above a threshold.

    Args:
        estimator: the model in training.
        metric_name: as in the results of `Estimator.evaluate`.
        threshold: the highest allowed value.
        eval_dir: the directory of results; None for those of evaluations without a name.
        min_steps: ignore results of fewer steps.
        run_every_secs: see `make_early_stopping_hook`.
        run_every_steps: see `make_early_stopping_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """
    return _stop_at(operator.gt, **locals())


@check_arguments
@like(stop_if_higher_hook)
def stop_if_lower_hook(**given: Any) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric was below a threshold; see `stop_if_higher_hook`."""
    return _stop_at(operator.lt, **given)


@check_arguments
@like(
    stop_if_higher_hook, without="threshold", after={"metric_name": {"": parameter("max_steps_without_increase", int)}}
)
def stop_if_no_increase_hook(max_steps_without_increase: int, **given: Any) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric has not increased for some global steps.

    Args:
        max_steps_without_increase: since the best result.
        **given: see `stop_if_higher_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """
    return _stop_without_progress(operator.gt, max_steps_without_increase, **given)


@check_arguments
@like(
    stop_if_higher_hook, without="threshold", after={"metric_name": {"": parameter("max_steps_without_decrease", int)}}
)
def stop_if_no_decrease_hook(max_steps_without_decrease: int, **given: Any) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric has not decreased for some global steps.

    Args:
        max_steps_without_decrease: since the best result.
        **given: see `stop_if_higher_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """
    return _stop_without_progress(operator.lt, max_steps_without_decrease, **given)


def read_eval_metrics(eval_dir: str) -> Results:
    """Return the results of evaluations in the event files of a directory, by global step in rising order."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(glob.glob(os.path.join(eval_dir, _EVENT_FILES))):
        for step, results in results_in(path):
            found.setdefault(step, {}).update(results)
    return collections.OrderedDict(sorted(found.items()))


class _StoppingHook(tf.train.SessionRunHook):
    """Ends training when a function returns True."""

    def __init__(self, should_stop: Callable[[], bool], timer: tf.train.SecondOrStepTimer) -> None:
        self._should_stop = should_stop
        self._timer = timer
        self._global_step: tf.Variable | None = None

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf.train.get_global_step()

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Call the function, if it is due."""
        # A read in the run of the step could come before or after its update.
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop():
                logger.info(f"Training is ended early, at global step {step}.")
                run_context.request_stop()


class _ResultsOf:
    def __init__(self, directory: str, metric_name: str, min_steps: int) -> None:
        self._directory = directory
        self.metric_name = metric_name
        self._min_steps = min_steps

    def read(self) -> list[tuple[int, float]]:
        """Return (step, value) of all evaluations so far; raise ConfigError if an evaluation has no such metric."""
        values = []
        for step, results in read_eval_metrics(self._directory).items():
            if step < self._min_steps:
                continue
            if self.metric_name not in results:
                raise ConfigError(
                    f"got metric_name={shown(self.metric_name)} for {self._directory}: expected one of "
                    f"{', '.join(results)}"
                )
            values.append((step, float(results[self.metric_name])))
        return values


def _stop_at(
    is_out: Compare,
    *,
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None,
    min_steps: int,
    **timing: Any,
) -> tf.train.SessionRunHook:
    results = _ResultsOf(eval_dir or estimator.eval_dir(), metric_name, min_steps)

    def stop() -> bool:
        found = next(((step, value) for step, value in results.read() if is_out(value, threshold)), None)
        if found:
            logger.info(f"{metric_name} is {found[1]} at global step {found[0]}.")
        return found is not None

    return make_early_stopping_hook(estimator, stop, **timing)


def _stop_without_progress(
    is_better: Compare,
    max_steps: int,
    *,
    estimator: Estimator,
    metric_name: str,
    eval_dir: str | None,
    min_steps: int,
    **timing: Any,
) -> tf.train.SessionRunHook:
    results = _ResultsOf(eval_dir or estimator.eval_dir(), metric_name, min_steps)

    def stop() -> bool:
        best: tuple[int, float] | None = None
        for step, value in results.read():
            if best is None or is_better(value, best[1]):
                best = step, value
            if step - best[0] >= max_steps:
                logger.info(f"{metric_name} is {value} at global step {step}, and was {best[1]} at {best[0]}.")
                return True
        return False

    return make_early_stopping_hook(estimator, stop, **timing)
