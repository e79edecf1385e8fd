"""Hooks that end training early: when a function says so, or by the results of evaluations.

Results are read from the event files that `Estimator.evaluate` writes, those of earlier runs included.
"""

import collections
import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import results_in
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_instance, shown

Results = Mapping[int, Mapping[str, Any]]
_EVENT_FILES = "*.tfevents.*"


@check_arguments
def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that asks a function, now and then, whether training is to end.

    Args:
        estimator: the model that is trained.
        should_stop_fn: takes nothing.
        run_every_secs: seconds between two questions. Either this or the steps can be given.
        run_every_steps: steps between two questions.

    Raises:
        ConfigError: Both or none are given.

    Example:
        estimator.train(input_fn, hooks=[make_early_stopping_hook(estimator, lambda: os.path.exists("stop"))])
    """
    check_instance("make_early_stopping_hook", "estimator", estimator, Estimator)
    if (run_every_secs is None) == (run_every_steps is None):
        raise ConfigError(
            f"expected either run_every_secs or run_every_steps, got {run_every_secs!r} and {run_every_steps!r}"
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
        estimator: the model that is trained.
        metric_name: as in the results of `Estimator.evaluate`.
        threshold: the highest that it may be.
        eval_dir: where results are; None for those of evaluations without a name.
        min_steps: results of fewer steps do not count.
        run_every_secs: as for `make_early_stopping_hook`.
        run_every_steps: as for `make_early_stopping_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """

    def is_over(value: float) -> bool:
        return value > threshold

    stop = _StopAtThreshold(eval_dir or estimator.eval_dir(), metric_name, min_steps, is_over)
    return make_early_stopping_hook(estimator, stop, run_every_secs, run_every_steps)


@check_arguments
def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric was below a threshold.

    Args:
        estimator: the model that is trained.
        metric_name: as in the results of `Estimator.evaluate`.
        threshold: the lowest that it may be.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `make_early_stopping_hook`.
        run_every_steps: as for `make_early_stopping_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """

    def is_under(value: float) -> bool:
        return value < threshold

    stop = _StopAtThreshold(eval_dir or estimator.eval_dir(), metric_name, min_steps, is_under)
    return make_early_stopping_hook(estimator, stop, run_every_secs, run_every_steps)


@check_arguments
def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric has not become better for a while, where more is better.

    Args:
        estimator: the model that is trained.
        metric_name: as in the results of `Estimator.evaluate`.
        max_steps_without_increase: of the global step, since the best result.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `make_early_stopping_hook`.
        run_every_steps: as for `make_early_stopping_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """

    def is_better(value: float, best: float) -> bool:
        return value > best

    results = _ResultsOf(eval_dir or estimator.eval_dir(), metric_name, min_steps)
    stop = _StopWithoutProgress(results, max_steps_without_increase, is_better)
    return make_early_stopping_hook(estimator, stop, run_every_secs, run_every_steps)


@check_arguments
def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> tf.train.SessionRunHook:
    """Return a hook that ends training when a metric has not become better for a while, where less is better.

    Args:
        estimator: the model that is trained.
        metric_name: as in the results of `Estimator.evaluate`.
        max_steps_without_decrease: of the global step, since the best result.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `make_early_stopping_hook`.
        run_every_steps: as for `make_early_stopping_hook`.

    Raises:
        ConfigError: As for `make_early_stopping_hook`.
    """

    def is_better(value: float, best: float) -> bool:
        return value < best

    results = _ResultsOf(eval_dir or estimator.eval_dir(), metric_name, min_steps)
    stop = _StopWithoutProgress(results, max_steps_without_decrease, is_better)
    return make_early_stopping_hook(estimator, stop, run_every_secs, run_every_steps)


def read_eval_metrics(eval_dir: str) -> Results:
    """Return the results of evaluations by their global steps, in the order of steps.

    Args:
        eval_dir: the directory of event files.
    """
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(glob.glob(os.path.join(eval_dir, _EVENT_FILES))):
        for step, results in results_in(path):
            found.setdefault(step, {}).update(results)
    return collections.OrderedDict(sorted(found.items()))


class _StoppingHook(tf.train.SessionRunHook):
    """Ends training when a function says so."""

    def __init__(self, should_stop: Callable[[], bool], timer: tf.train.SecondOrStepTimer) -> None:
        self._should_stop = should_stop
        self._timer = timer
        self._global_step: tf.Variable | None = None

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf.train.get_global_step()

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Ask the function, if it is time."""
        # Read in the run of the step, it would be the number before or after it, by chance.
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
        """Return (step, value) of all evaluations so far.

        Raises:
            ConfigError: An evaluation has no such metric.
        """
        values = []
        for step, results in read_eval_metrics(self._directory).items():
            if step < self._min_steps:
                continue
            if self.metric_name not in results:
                raise ConfigError(
                    f"no result called {shown(self.metric_name)} in {self._directory}: there are {', '.join(results)}"
                )
            values.append((step, float(results[self.metric_name])))
        return values


class _StopAtThreshold:
    """Says to stop when any value is out of what is allowed."""

    def __init__(self, directory: str, metric_name: str, min_steps: int, is_out: Callable[[float], bool]) -> None:
        self._results = _ResultsOf(directory, metric_name, min_steps)
        self._is_out = is_out

    def __call__(self) -> bool:
        """Tell whether to stop."""
        for step, value in self._results.read():
            if self._is_out(value):
                logger.info(f"{self._results.metric_name} is {value} at global step {step}.")
                return True
        return False


class _StopWithoutProgress:
    """Says to stop when the best value is too long ago."""

    def __init__(self, results: _ResultsOf, max_steps: int, is_better: Callable[[float, float], bool]) -> None:
        self._results = results
        self._max_steps = max_steps
        self._is_better = is_better

    def __call__(self) -> bool:
        """Tell whether to stop."""
        best: tuple[int, float] | None = None
        for step, value in self._results.read():
            if best is None or self._is_better(value, best[1]):
                best = step, value
            if step - best[0] >= self._max_steps:
                name = self._results.metric_name
                logger.info(f"{name} is {value} at global step {step}, and was {best[1]} at {best[0]}.")
                return True
        return False
