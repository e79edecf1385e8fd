"""What `train_and_evaluate` trains on and evaluates on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tpack.errors import ConfigError
from tpack.estimator.exporter import Exporter
from tpack.estimator.inputs import InputFn
from tpack.estimator.number_of_steps import number_of_steps
from tpack.estimator.spec_checks import checked_hooks


class _TrainFields(NamedTuple):
    input_fn: InputFn
    max_steps: Any
    hooks: tuple[Any, ...]


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
        cls, input_fn: InputFn, max_steps: int | None = None, hooks: Sequence[Any] | None = None
    ) -> "TrainSpec":
        """Check the arguments."""
        _check_input_fn("a TrainSpec", input_fn)
        max_steps = number_of_steps("max_steps of a TrainSpec", max_steps)
        return super().__new__(cls, input_fn, max_steps, checked_hooks("hooks of a TrainSpec", hooks))


class _EvalFields(NamedTuple):
    input_fn: InputFn
    steps: Any
    name: Any
    hooks: tuple[Any, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


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
        hooks: Sequence[Any] | None = None,
        exporters: Exporter | Sequence[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> "EvalSpec":
        """Check the arguments."""
        _check_input_fn("an EvalSpec", input_fn)
        steps = number_of_steps("steps of an EvalSpec", steps)
        for what, secs in (("start_delay_secs", start_delay_secs), ("throttle_secs", throttle_secs)):
            if secs < 0:
                raise ConfigError(f"{what} of an EvalSpec must not be below zero, got {secs!r}")
        hooks = checked_hooks("hooks of an EvalSpec", hooks)
        exporters = _checked_exporters(exporters)
        return super().__new__(cls, input_fn, steps, name, hooks, exporters, start_delay_secs, throttle_secs)


def _check_input_fn(what: str, input_fn: Any) -> None:
    if not callable(input_fn):
        raise ConfigError(f"input_fn of {what} must be a function, got {input_fn!r}")


def _checked_exporters(exporters: Any) -> tuple[Exporter, ...]:
    found = (exporters,) if isinstance(exporters, Exporter) else tuple(exporters or ())
    for exporter in found:
        if not isinstance(exporter, Exporter):
            raise ConfigError(f"exporters of an EvalSpec must be tpack Exporter objects, got {exporter!r}")
    names = [exporter.name for exporter in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"exporters of an EvalSpec must have different names, got {', '.join(names)}")
    return found
