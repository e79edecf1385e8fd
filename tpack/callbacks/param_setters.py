"""Callbacks that change a hyper-parameter while training runs.

`HyperParamSetter` asks for a value and sets it; its subclasses take the value from a function, a file, a schedule, or
from how a statistic goes.
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
    shown,
)

_INTERPOLATIONS = (None, "linear")
_LEARNING_RATES = ("learning_rate", "lr")


@check_arguments
class HyperParamSetter(Callback):
    """Ask a subclass for a value before training and whenever triggered, and set it.

    A value that differs from the last one is logged, at most once an epoch. Where the hyper-parameter is a number, what
    an epoch ended with is reported after it, under the hyper-parameter's name.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        WrongTypeError: ``param`` is something else, or ``enable`` no boolean.
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
        """Return the value to set now, after logging it if it is a new one; None to leave it as it is."""
        value = self._get_value_to_set()
        if value is not None and (self._last_value is None or not np.array_equal(value, self._last_value)):
            if self._epoch_of_last_line != self.epoch_num:
                self._log(value)
            self._last_value = value
        return value

    def _log(self, value: ArrayLike) -> None:
        before = "" if self._last_value is None else f" from {_brief(self._last_value)}"
        logger.info(f"{self.param.readable_name} is set{before} to {_brief(value)} after step {self.global_step}.")
        self._epoch_of_last_line = self.epoch_num

    def get_current_value(self) -> Any:
        """Return what the hyper-parameter is now."""
        return self.param.get_value()

    def _get_value_to_set(self) -> ArrayLike | None:
        """Return the value to set now, or None to leave it as it is."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_value_to_set")

    def _setup_graph(self) -> None:
        self.param.setup(self.trainer)

    def _before_train(self) -> None:
        self._set_param()

    def _after_epoch(self) -> None:
        # Before any callback is triggered and may change it for the next epoch.
        current = np.asarray(self.get_current_value())
        if current.size == 1 and current.dtype.kind in "biuf":
            self.trainer.monitors.put_scalar(self.param.readable_name, current.item())

    def _trigger(self) -> None:
        self._set_param()

    def _set_param(self) -> None:
        if not self._enabled:
            return
        value = self.get_value_to_set()
        if value is not None:
            self.param.set_value(value)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.param.readable_name})"


@check_arguments
class HyperParamSetterWithFunc(HyperParamSetter):
    """Set a hyper-parameter to what a function says.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        func: ``func(epoch_num, current_value)`` returns the new value, or None to leave it. It is called before
            training, with the number of the epoch before the first, and after each epoch with its number.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        WrongTypeError: ``func`` is no function.
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
    """Set a hyper-parameter to what a file says, before training and after each epoch.

    The file has lines of the form ``name: value``. It need not exist, and may name other hyper-parameters too. Delete
    the line, or the file, to give the hyper-parameter back to other callbacks.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        file_name: the file, in the logger's directory unless it is an absolute path.
        enable: set to False to leave the hyper-parameter alone, and still report it.
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
            raise CallbackError(f"{self} looks for {self._file_name} in the logger's directory, and none is set")
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
        return self._value_in(lines)

    def _value_in(self, lines: list[str]) -> float | None:
        """Return the value in the last line about this hyper-parameter."""
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

    A value at epoch 30 is set when epoch 30 has ended, so that epoch 31 is the first to be trained with it; a value at
    epoch 0 is set before training. Likewise a value at step 1000 is used from the 1001st step on.

    A run that begins anywhere, for example where it resumes, begins with the value that the schedule has there. Before
    the first scheduled point the hyper-parameter is left alone.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        schedule: a `Schedule` of `tpack.schedules`, or (epoch or step, value) pairs. Numbers may be written as text,
            such as ``"25"``; of a point between two epochs or steps, such as 2.5, the earlier one counts.
        interp: ``"linear"`` to set a value of a straight line at every epoch or step between two points.
        step_based: the schedule is in (global) steps.
        set_at_beginning: before training set what holds there; else set something only if that very epoch or step is
            scheduled.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        ConfigError: the schedule is empty, has a point twice, or cannot be read; or it is a `Schedule`, and ``interp``
            is given.

    Example:
        ``ScheduledHyperParamSetter("learning_rate", [(0, 0.1), (30, 0.01), (60, 0.001)])``, or
        ``ScheduledHyperParamSetter("learning_rate", WarmUp(Cosine(0.1, 0, 85), 5, start=0.01))``
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
    ) -> None:
        if isinstance(schedule, Schedule) and interp is not None:
            raise ConfigError(f"{type(self).__name__} got interp={interp!r}, which is for pairs, and {schedule!r}")
        self._schedule = schedule if isinstance(schedule, Schedule) else _Points(schedule, interp)
        super().__init__(param, enable=enable)
        self._counts_steps = step_based
        self._sets_at_beginning = set_at_beginning
        self._has_begun = False

    def _get_value_to_set(self) -> float | None:
        point = self.global_step if self._counts_steps else self.epoch_num
        if self._sets_at_beginning and not self._has_begun:
            return self._schedule.value_at(point)
        return self._schedule.change_at(point)

    def _before_train(self) -> None:
        super()._before_train()
        self._has_begun = True
        name = self.param.readable_name
        if self._last_value == 0 and not self._counts_steps and name.rpartition("/")[2] in _LEARNING_RATES:
            logger.warning(
                f"{name} is 0 for all of the epoch that begins, so that nothing is learned in it: a schedule in epochs "
                "is followed when one has ended. Let it begin with more, as WarmUp(..., start=1e-4) does, or count in "
                "steps: step_based=True"
            )

    def _trigger_epoch(self) -> None:
        if not self._counts_steps:
            self.trigger()

    def _trigger_step(self) -> None:
        if self._counts_steps:
            self.trigger()

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(steps_left=lambda: self._schedule.steps_left_at(self.global_step))

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; a schedule of epochs costs a step nothing."""
        if hook == "trigger_step":
            return self._counts_steps
        return super().implements(hook)


@check_arguments
class StatMonitorParamSetter(HyperParamSetter):
    """Change a hyper-parameter when a statistic has not improved for some time.

    Whenever triggered, it takes the statistic's last ``last_k + 1`` values. If none of the newer ones is below the
    oldest by more than ``threshold``, the hyper-parameter is set to ``value_func`` of its value, and the next change
    comes no earlier than ``last_k`` values later. It is triggered after the callbacks that report statistics, and does
    nothing when the statistic got no new value.

    A run that resumes goes on with the values that the checkpoint holds, else with those that a former run left in
    ``stats.json``.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        stat_name: the statistic.
        value_func: makes the new value of the current one.
        threshold: by how much the statistic has to change to have improved.
        last_k: how many values to wait for that.
        reverse: the statistic is better when it is larger. Where nothing is given the name says it, as for
            `EarlyStopping`; one that does not is taken to be better when it is smaller. The log says which it is.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        ConfigError: an argument is no such thing, ``last_k`` is below 1 or ``threshold`` is negative.

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
        self._direction = Direction(self, stat_name, modes[reverse], "give reverse=True or reverse=False")
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
        """Take over the values of a former run; nothing is set before there is a new one."""
        self._values = former_values(self.trainer, self._stat)[-self._last_k :]

    def _after_train(self) -> None:
        self._statistic.tell_if_none_came()

    def _get_value_to_set(self) -> ArrayLike | None:
        new = self._statistic.new_values()
        if not new:
            return None
        self._values = [*self._values, *new][-self._last_k - 1 :]
        if len(self._values) <= self._last_k or self._has_improved():
            return None
        change = "increased" if self._direction.mode == "max" else "decreased"
        logger.info(
            f"{self._stat} has not {change} by more than {self._threshold:g} over its last {self._last_k} values."
        )
        self._values = self._values[-1:]
        return self._value_func(self.get_current_value())

    def _has_improved(self) -> bool:
        oldest, *newer = (self._direction.sign * value for value in self._values)
        return any(value < oldest - self._threshold for value in newer)


def _brief(value: object) -> str:
    array = np.asarray(value)
    return f"{array.item():.6g}" if array.ndim == 0 and array.dtype.kind in "biuf" else str(value)


class _Points:
    """Values at points of time, and between them.

    Args:
        points: (point, value) pairs in any order, each point there once.
        interp: ``"linear"`` for a straight line between two points, None to keep the value until the next point.

    Raises:
        ConfigError: there are no points, one cannot be read or is there twice, or ``interp`` is not known.
    """

    def __init__(self, points: Iterable[tuple[float | str, float]], interp: str | None = None) -> None:
        check_choice("a schedule", "interp", interp, _INTERPOLATIONS)
        if isinstance(points, (str, bytes)) or not isinstance(points, Iterable):
            raise WrongTypeError(f"a schedule is a list of (epoch or step, number) pairs, got {shown(points)}")
        pairs = sorted(map(_checked, points))
        self._points = [point for point, _ in pairs]
        self._values = [value for _, value in pairs]
        self._interpolates = interp is not None
        if not pairs:
            raise ConfigError("a schedule wants at least one (point, value) pair, got none")
        if len(set(self._points)) < len(pairs):
            raise ConfigError(f"a schedule has one value at each point, got {pairs}")

    def value_at(self, point: int) -> float | None:
        """Return what holds at ``point``; None before the first point. After the last one its value stays."""
        before = bisect.bisect_right(self._points, point) - 1
        if before < 0:
            return None
        start, value = self._points[before], self._values[before]
        if not self._interpolates or start == point or before + 1 == len(self._points):
            return value
        end, next_value = self._points[before + 1], self._values[before + 1]
        return value + (next_value - value) * (point - start) / (end - start)

    def steps_left_at(self, point: int) -> int:
        """Return after how many more steps there may be something to be set again."""
        later = self._points[bisect.bisect_right(self._points, point) :]
        if not later:
            return sys.maxsize
        return 1 if self._interpolates and point >= self._points[0] else later[0] - point

    def change_at(self, point: int) -> float | None:
        """Return the value that is to be set at ``point``; None where nothing changes."""
        is_between = self._interpolates and self._points[0] <= point <= self._points[-1]
        return self.value_at(point) if is_between or point in self._points else None


def _checked(pair: tuple[float | str, float]) -> tuple[int, float]:
    try:
        point, value = pair
        if isinstance(point, bool) or isinstance(value, bool) or not math.isfinite(float(value)):
            raise ValueError
        whole = int(point)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"a schedule holds (epoch or step, number) pairs, got {shown(pair)}") from error
    if isinstance(point, float) and whole != point:
        logger.info(f"The point {point} of a schedule is taken to be {whole}.")
    return whole, float(value)
