"""Train an Estimator, and evaluate it at its checkpoints while it trains."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import Exporter
from tpack.estimator.inputs import InputFn
from tpack.estimator.run_config import number_of_steps
from tpack.estimator.spec import checked_hooks
from tpack.utils import logger
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_number, check_text, shown


class _EvalFields(NamedTuple):
    input_fn: InputFn
    steps: int | None
    name: str | None
    hooks: tuple[tf.train.SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


@check_arguments
class EvalSpec(_EvalFields):
    """How to evaluate, and what to export.

    Args:
        input_fn: as for `Estimator.evaluate`.
        steps: how many batches; None for all.
        name: of the evaluation, as for `Estimator.evaluate`.
        hooks: session hooks.
        exporters: an `Exporter` or several of different names, called after each evaluation.
        start_delay_secs: not used: it is for clusters.
        throttle_secs: seconds from the beginning of an evaluation to that of the next one, at least.

    Raises:
        ConfigError: An argument is of the wrong kind, a number is negative, or two exporters have one name.

    Source:
        The class of this name in ``tf.estimator``.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: InputFn,
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        exporters: Exporter | Sequence[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> "EvalSpec":
        """Check the arguments."""
        _check_input_fn("an EvalSpec", input_fn)
        steps = number_of_steps("steps of an EvalSpec", steps)
        for what, secs in (("start_delay_secs", start_delay_secs), ("throttle_secs", throttle_secs)):
            check_number("an EvalSpec", what, secs, low=0)
        if name is not None:
            check_text("an EvalSpec", "name", name)
        hooks = checked_hooks("hooks", hooks)
        exporters = _checked_exporters(exporters)
        return super().__new__(cls, input_fn, steps, name, hooks, exporters, start_delay_secs, throttle_secs)


class _TrainFields(NamedTuple):
    input_fn: InputFn
    max_steps: int | None
    hooks: tuple[tf.train.SessionRunHook, ...]


@check_arguments
class TrainSpec(_TrainFields):
    """How to train.

    Args:
        input_fn: as for `Estimator.train`.
        max_steps: the global step to end at; None for the end of the data.
        hooks: session hooks.

    Raises:
        ConfigError: An argument is of the wrong kind, or the number is not positive.

    Source:
        The class of this name in ``tf.estimator``.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: InputFn,
        max_steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
    ) -> "TrainSpec":
        """Check the arguments."""
        _check_input_fn("a TrainSpec", input_fn)
        max_steps = number_of_steps("max_steps of a TrainSpec", max_steps)
        return super().__new__(cls, input_fn, max_steps, checked_hooks("hooks", hooks))


@check_arguments
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any], list[str | None]]:
    """Train, and evaluate the model whenever a checkpoint is saved and in the end.

    The first checkpoint, with which training begins, is not evaluated. Of the others, those that come within
    ``throttle_secs`` of the last evaluation are not, except for the last. After each evaluation the exporters are
    called; they export to ``export/<name>`` in the model's directory.

    Args:
        estimator: the model.
        train_spec: how to train. When the model is at ``max_steps`` already, it is only evaluated.
        eval_spec: how to evaluate.

    Returns:
        The results of the last evaluation, and for each exporter what it wrote after that, or None.

    Raises:
        ConfigError: An argument is of the wrong kind.
        CheckpointError: No checkpoint was saved.

    Example:
        train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), EvalSpec(eval_input_fn))

    Source:
        The function of this name in ``tf.estimator``, on one machine. There, a model that needs no training is not
        evaluated, and without ``max_steps`` no export is the final one.
    """
    evaluator = _Evaluator(estimator, eval_spec)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[_EvaluatesCheckpoints(evaluator)],
    )
    # After training and not at its end, where its session is still open.
    return evaluator.finish()


class _Evaluator:
    """Evaluates and exports, each checkpoint once."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._estimator = estimator
        self._spec = spec
        self._clock = clock
        self._next_time = -float("inf")
        self._checkpoint: str | None = None
        self._results: dict[str, Any] = {}
        self._exports: list[str | None] = []

    def evaluate_unless_recent(self) -> None:
        """Evaluate and export the newest checkpoint, unless the last evaluation was just before."""
        if self._clock() < self._next_time:
            logger.info(f"This checkpoint is not evaluated: throttle_secs is {self._spec.throttle_secs}.")
            return
        self._evaluate()
        self._export(is_final=False)

    def finish(self) -> tuple[dict[str, Any], list[str | None]]:
        """Evaluate the last checkpoint, if it was not evaluated, and give it to the exporters as the final one."""
        if self._checkpoint is None or self._checkpoint != self._estimator.latest_checkpoint():
            self._evaluate()
        self._export(is_final=True)
        return self._results, self._exports

    def _evaluate(self) -> None:
        self._next_time = self._clock() + self._spec.throttle_secs
        self._checkpoint = self._estimator.latest_checkpoint()
        spec = self._spec
        self._results = self._estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, self._checkpoint, spec.name)
        self._exports = [None] * len(spec.exporters)

    def _export(self, *, is_final: bool) -> None:
        base = os.path.join(self._estimator.model_dir, "export")
        for index, exporter in enumerate(self._spec.exporters):
            # What was exported before it turned out to be the last one is not exported again.
            if self._exports[index] is None:
                self._exports[index] = exporter.export(
                    self._estimator, os.path.join(base, exporter.name), str(self._checkpoint), self._results, is_final
                )


class _EvaluatesCheckpoints(tf.train.CheckpointSaverListener):
    """Has every checkpoint evaluated but the first, when nothing is trained yet."""

    def __init__(self, evaluator: _Evaluator) -> None:
        self._evaluator = evaluator
        self._is_first = True

    def after_save(self, session: tf.Session, global_step_value: int) -> None:
        """Evaluate, unless this is the first one."""
        if not self._is_first:
            self._evaluator.evaluate_unless_recent()
        self._is_first = False


def _check_input_fn(what: str, input_fn: InputFn) -> None:
    if not callable(input_fn):
        raise ConfigError(f"input_fn of {what} must be a function, got {shown(input_fn)}")


def _checked_exporters(exporters: Exporter | Sequence[Exporter] | None) -> tuple[Exporter, ...]:
    found = (exporters,) if isinstance(exporters, Exporter) else tuple(exporters or ())
    for exporter in found:
        if not isinstance(exporter, Exporter):
            raise ConfigError(f"exporters of an EvalSpec must be tpack Exporter objects, got {shown(exporter)}")
    names = [exporter.name for exporter in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"exporters of an EvalSpec must have different names, got {', '.join(names)}")
    return found
