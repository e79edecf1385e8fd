"""Callbacks that change a hyper-parameter while training runs.

`HyperParamSetter` sets the value that its subclass computes: from a function, a file, a schedule or a statistic.
"""

from __future__ import annotations

import bisect
import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.hyper_param import GraphVarParam, HyperParam
from tpack.callbacks.stat_history import Direction, StatisticReader, former_values, mode_of
from tpack.errors import CallbackError, ConfigError, WrongTypeError
from tpack.schedules import Schedule
from tpack.utils import logger
from tpack.utils.validation import (
    check_arguments,
    check_choice,
    check_count,
    check_function,
    check_instance,
    check_number,
    check_path,
    check_text,
    mismatch,
    owner_name,
    shown,
)

_INTERPOLATIONS = (None, "linear")
_LEARNING_RATES = ("learning_rate", "lr")


@check_arguments
class HyperParamSetter(Callback):
    """The base of setters: set a subclass's value before training and whenever triggered.

    A changed value is logged, at most once an epoch. A numeric hyper-parameter is reported after each epoch by its
    name.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        enable: False reports the hyper-parameter without setting it.

    Raises:
        WrongTypeError: ``param`` is something else, or ``enable`` not a boolean.
    """

    _chief_only = False

    def __init__(self, param: HyperParam | str, *, enable: bool = True) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        check_instance(self, "param", param, HyperParam, "a HyperParam or the name of a variable")
        self.param = param
        self._enabled = enable
        self._last_value: ArrayLike | None = None
        self._epoch_of_last_line: int | None = None

    def get_value_to_set(self) -> ArrayLike | None:
        """Return the value to set now, and log a new one; None to leave it."""
        value = self._get_value_to_set()
        if value is not None and (self._last_value is None or not np.array_equal(value, self._last_value)):
            if self._epoch_of_last_line != self.epoch_num:
                before = "" if self._last_value is None else f" from {_brief(self._last_value)}"
                change = f"{before} to {_brief(value)} after step {self.global_step}"
                logger.info(f"{self.param.readable_name} is set{change}.")
                self._epoch_of_last_line = self.epoch_num
            self._last_value = value
        return value

    def get_current_value(self) -> Any:
        """Return the present value."""
        return self.param.get_value()

    def _get_value_to_set(self) -> ArrayLike | None:
        """Return the value to set now; None to leave it."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_value_to_set")

    def _setup_graph(self) -> None:
        self.param.setup(self.trainer)

    def _before_train(self) -> None:
        self._set_param()

    def _after_epoch(self) -> None:
        # Before any triggered callback can change it for the next epoch.
        current = np.asarray(self.get_current_value())
        if current.size == 1 and current.dtype.kind in "biuf":
            self.trainer.monitors.put_scalar(self.param.readable_name, current.item())

    def _trigger(self) -> None:
        self._set_param()

    def _set_param(self) -> None:
        value = self.get_value_to_set() if self._enabled else None
        if value is not None:
            self.param.set_value(value)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.param.readable_name})"


@check_arguments
class HyperParamSetterWithFunc(HyperParamSetter):
    """Set a hyper-parameter to the result of a function.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        func: ``func(epoch_num, current_value)`` returns the new value, or None to leave it; called before training,
            with the number of the epoch before the first, and after each epoch.
        enable: False reports the hyper-parameter without setting it.

    Raises:
        WrongTypeError: ``func`` is not a function.
    """

    def __init__(
        self, param: HyperParam | str, func: Callable[[int, Any], ArrayLike | None], *, enable: bool = True
    ) -> None:
        super().__init__(param, enable=enable)
        check_function(self, "func", func, "a function of (epoch_num, current_value)")
        self._func = func

    def _get_value_to_set(self) -> ArrayLike | None:
        return self._func(self.epoch_num, self.get_current_value())


@check_arguments
class HumanHyperParamSetter(HyperParamSetter):
    """Set a hyper-parameter to the value in a file, before training and after each epoch.

    The file has lines ``name: value``, and may name others; without the line or the file the hyper-parameter is left
    alone.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        file_name: the file, relative to the logger's directory.
        enable: False reports the hyper-parameter without setting it.
    """

    def __init__(
        self, param: HyperParam | str, file_name: str | os.PathLike[str] = "hyper.txt", *, enable: bool = True
    ) -> None:
        super().__init__(param, enable=enable)
        self._file_name = check_path(self, "file_name", file_name)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        directory = logger.get_logger_dir()
        if directory is None and not os.path.isabs(self._file_name):
            raise CallbackError(mismatch(self, "file_name", self._file_name, "an absolute path, or a logger directory"))
        self._path = os.path.join(directory or "", self._file_name)

    def _get_value_to_set(self) -> float | None:
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            logger.warning(f"{self} cannot read {self._path}: {error}")
            return None
        # The last line about this hyper-parameter holds.
        for line in reversed(lines):
            name, _, text = line.rpartition(":")
            if name.strip() == self.param.readable_name:
                try:
                    return float(text)
                except ValueError:
                    logger.warning(f"{self._path} should have lines of the form 'name: value', got {line!r}")
                    return None
        return None


@check_arguments
class ScheduledHyperParamSetter(HyperParamSetter):
    """Set a hyper-parameter at scheduled epochs or steps.

    A value at epoch 30 is set at the end of epoch 30 and used from epoch 31 on; a value at epoch 0 is set before
    training. Likewise a value at step 1000 is used from step 1001 on. A run that begins or resumes anywhere starts with
    the schedule's value there. Before the first point the hyper-parameter is left alone.

    A `Schedule` of epochs is followed in each step of an epoch, in which it may change; where one call makes several
    steps, after each call. A step at whose beginning it is 0, as the first one of a warm-up, has the value in its
    middle, so that no step learns nothing.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        schedule: a `Schedule` of `tpack.schedules`, or (epoch or step, value) pairs. Numbers may be text, such as
            ``"25"``; a point between two epochs or steps, such as 2.5, is rounded down.
        interp: ``"linear"`` interpolates at every epoch or step between two points.
        step_based: the schedule counts global steps.
        set_at_beginning: set the schedule's value before training; otherwise only if that epoch or step is scheduled.
        enable: False reports the hyper-parameter without setting it.
        smooth: False sets the values of a `Schedule` of epochs at the ends of epochs only.

    Raises:
        ConfigError: the schedule is empty, has a point twice, or cannot be read; or ``interp`` is given with a
            `Schedule`.

    Example:
        ``ScheduledHyperParamSetter("learning_rate", [(0, 0.1), (30, 0.01), (60, 0.001)])``, or
        ``ScheduledHyperParamSetter("learning_rate", WarmUp(Cosine(0.1, 0, 85), 5))``
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Schedule | Iterable[tuple[float | str, float]],
        interp: str | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
        *,
        enable: bool = True,
        smooth: bool = True,
    ) -> None:
        if isinstance(schedule, Schedule) and interp is not None:
            raise ConfigError(f"{owner_name(self)} got interp={interp!r} and {schedule!r}: expected pairs with interp")
        self._schedule = schedule if isinstance(schedule, Schedule) else _Points(schedule, interp)
        super().__init__(param, enable=enable)
        self._counts_steps = step_based
        self._is_smooth = smooth and not step_based and isinstance(schedule, Schedule) and schedule.changes_in_epochs
        self._sets_at_beginning = set_at_beginning
        self._has_begun = False

    def _get_value_to_set(self) -> float | None:
        point, step = self._point()
        if self._sets_at_beginning and not self._has_begun:
            return self._value_at(point, step)
        if self._is_smooth and self._has_begun:
            value = self._value_at(point, step)
            return None if value == self._last_value else value
        value = self._schedule.change_at(point)  # type: ignore[arg-type]
        return value or self._value_at(point, step) if value is not None else None

    def _point(self) -> tuple[float, float]:
        """Return the finished steps or epochs, with fractions of these, and how far a step goes; 0 for stairs."""
        if self._counts_steps:
            return self.global_step, 1.0
        if not self._is_smooth:
            return self.epoch_num, 0.0
        loop = self.trainer.loop
        epochs, steps = (
            (loop.epoch_num - 1, loop.local_step) if self._has_begun else (loop.epoch_num, loop.starting_step)
        )
        return epochs + steps / loop.steps_per_epoch, 1 / loop.steps_per_epoch

    def _value_at(self, point: float, step: float) -> float | None:
        value = self._schedule.value_at(point)  # type: ignore[arg-type]
        return (
            self._schedule.value_at(point + step / 2) if value == 0 and isinstance(self._schedule, Schedule) else value
        )

    def _before_train(self) -> None:
        super()._before_train()
        self._has_begun = True
        name = self.param.readable_name
        if self._last_value == 0 and not self._counts_steps and name.rpartition("/")[2] in _LEARNING_RATES:
            logger.warning(
                f"{name} is 0 for all of the epoch that begins, which learns nothing: it is set at the ends of epochs. "
                "Start above 0, or use a Schedule such as WarmUp(...), which is followed in each step"
            )

    def _trigger_epoch(self) -> None:
        if not self._counts_steps and not self._is_smooth:
            self.trigger()

    def _trigger_step(self) -> None:
        if self._counts_steps or self._is_smooth:
            self.trigger()

    def _with_several_steps(self) -> WithSteps:
        if self._is_smooth:
            return WithSteps()
        return WithSteps(steps_left=lambda: self._schedule.steps_left_at(self.global_step))

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; schedules that change between epochs alone cost a step nothing."""
        return self._counts_steps or self._is_smooth if hook == "trigger_step" else super().implements(hook)


@check_arguments
class StatMonitorParamSetter(HyperParamSetter):
    """Change a hyper-parameter when a statistic has stopped improving.

    Triggered after the callbacks that report, it sets ``value_func`` of the present value if none of the statistic's
    last ``last_k`` values is below the one before them by more than ``threshold``; the next change is at least
    ``last_k`` values later. A resumed run continues with the values in the checkpoint, or else those in ``stats.json``.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        stat_name: the statistic.
        value_func: makes the new value of the present one.
        threshold: the least change that counts as an improvement.
        last_k: the number of values to wait for it.
        reverse: larger is better. By default the name decides, as for `EarlyStopping`, or else smaller is better, as
            the log tells.
        enable: False reports the hyper-parameter without setting it.

    Raises:
        ConfigError: an argument is invalid, ``last_k`` is below 1 or ``threshold`` is negative.

    Example:
        ``StatMonitorParamSetter("learning_rate", "val_error", lambda rate: rate * 0.2, threshold=0, last_k=10)``
    """

    reads_statistics = True

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], ArrayLike],
        threshold: float,
        last_k: int,
        reverse: bool | None = None,
        *,
        enable: bool = True,
    ) -> None:
        self._stat = check_text(self, "stat_name", stat_name)
        self._threshold = check_number(self, "threshold", threshold, 0)
        self._last_k = check_count(self, "last_k", last_k)
        super().__init__(param, enable=enable)
        self._value_func = value_func
        modes = {None: None if mode_of(stat_name) else "min", False: "min", True: "max"}
        self._direction = Direction(self, stat_name, modes[reverse])
        self._values: list[float] = []
        self._statistic = StatisticReader(self, stat_name)

    def _setup_graph(self) -> None:
        super()._setup_graph()
        self._direction.log()

    def _state_to_save(self) -> list[float]:
        return self._values

    def _load_saved_state(self, state: list[float]) -> None:
        self._values = [float(value) for value in state][-self._last_k - 1 :]

    def _before_train(self) -> None:
        """Take over the values of a former run; nothing is set before a new value."""
        self._values = former_values(self.trainer, self._stat)[-self._last_k :]

    def _after_train(self) -> None:
        self._statistic.warn_if_never_reported()

    def _get_value_to_set(self) -> ArrayLike | None:
        new = self._statistic.new_values()
        if not new:
            return None
        self._values = [*self._values, *new][-self._last_k - 1 :]
        oldest, *newer = (self._direction.sign * value for value in self._values)
        has_improved = any(value < oldest - self._threshold for value in newer)
        if len(self._values) <= self._last_k or has_improved:
            return None
        change = "increased" if self._direction.mode == "max" else "decreased"
        logger.info(
            f"{self._stat} has not {change} by more than {self._threshold:g} over its last {self._last_k} values."
        )
        self._values = self._values[-1:]
        return self._value_func(self.get_current_value())


def _brief(value: object) -> str:
    array = np.asarray(value)
    return f"{array.item():.6g}" if array.ndim == 0 and array.dtype.kind in "biuf" else str(value)


class _Points:
    """Values at (point, value) pairs in any order, with a straight line or the former value between them."""

    def __init__(self, points: Iterable[tuple[float | str, float]], interp: str | None = None) -> None:
        check_choice("a schedule", "interp", interp, _INTERPOLATIONS)
        if isinstance(points, (str, bytes)) or not isinstance(points, Iterable):
            raise WrongTypeError(f"a schedule got {shown(points)}: expected (epoch or step, number) pairs")
        pairs = sorted(map(_checked, points))
        self._points = [point for point, _ in pairs]
        self._values = [value for _, value in pairs]
        self._interpolates = interp is not None
        if not pairs:
            raise ConfigError("a schedule got no pairs: expected at least one (point, value) pair")
        if len(set(self._points)) < len(pairs):
            raise ConfigError(f"a schedule got {pairs}: expected one value at each point")

    def value_at(self, point: int) -> float | None:
        """Return the value at ``point``; None before the first point."""
        before = bisect.bisect_right(self._points, point) - 1
        if before < 0:
            return None
        start, value = self._points[before], self._values[before]
        if not self._interpolates or start == point or before + 1 == len(self._points):
            return value
        end, next_value = self._points[before + 1], self._values[before + 1]
        return value + (next_value - value) * (point - start) / (end - start)

    def steps_left_at(self, point: int) -> int:
        """Return the number of steps until the next possible change."""
        later = self._points[bisect.bisect_right(self._points, point) :]
        if not later:
            return sys.maxsize
        return 1 if self._interpolates and point >= self._points[0] else later[0] - point

    def change_at(self, point: int) -> float | None:
        """Return the value to set at ``point``; None if nothing changes there."""
        is_between = self._interpolates and self._points[0] <= point <= self._points[-1]
        return self.value_at(point) if is_between or point in self._points else None


def _checked(pair: tuple[float | str, float]) -> tuple[int, float]:
    try:
        point, value = pair
        if isinstance(point, bool) or isinstance(value, bool) or not math.isfinite(float(value)):
            raise ValueError
        whole = int(point)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"a schedule got {shown(pair)}: expected (epoch or step, number) pairs") from error
    if isinstance(point, float) and whole != point:
        logger.info(f"The point {point} of a schedule is taken to be {whole}.")
    return whole, float(value)
