"""Schedules as values: numbers that go with the progress of training, such as a learning rate.

A schedule says what holds at a point, in epochs or in steps, whichever its user counts in: at 0 training begins. Those
of this module are put together: ``WarmUp(Cosine(0.1, 0, length=85), length=5)``. `ScheduledHyperParamSetter` follows
one, and ``tpack plot --schedule`` draws it.
"""

import ast
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_instance, check_number, shown


class Schedule(ABC):
    """A number at each point of training. After its length, the last value stays.

    Attributes:
        length: from which point on nothing changes, in epochs or steps.
    """

    length: float

    @abstractmethod
    def _value(self, point: float) -> float:
        """Return what holds at a point between 0 and the length."""

    def value_at(self, point: float) -> float:
        """Return what holds after ``point`` epochs or steps."""
        return float(self._value(min(max(float(point), 0.0), self.length)))

    def change_at(self, point: int) -> float | None:
        """Return the value that is to be set after ``point`` epochs or steps; None where nothing changes."""
        value = self.value_at(point)
        return value if point <= 0 or value != self.value_at(point - 1) else None

    def steps_left_at(self, point: int) -> int:
        """Return after how many more epochs or steps there may be something to be set again."""
        return 1 if point < self.length else sys.maxsize

    def then(self, other: "Schedule") -> "Schedule":
        """Return this schedule, and after its length the other one.

        Raises:
            WrongTypeError: ``other`` is no schedule.
            ConfigError: This one has no end.
        """
        return Chain(self, other)

    def scaled(self, factor: float) -> "Schedule":
        """Return the same with all values multiplied by a number.

        Raises:
            ConfigError: It is none, or not finite.
        """
        return Scaled(self, factor)


@check_arguments
@dataclass(frozen=True)
class Constant(Schedule):
    """One value, always or as long as it is not the turn of what comes then.

    Args:
        value: the value.
        length: how long until what comes then.

    Raises:
        ConfigError: A number is not finite, or the length is negative.
    """

    value: float
    length: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "value", self.value)
        check_number(self, "length", self.length, 0)

    def _value(self, point: float) -> float:
        return self.value


@check_arguments
@dataclass(frozen=True)
class Polynomial(Schedule):
    """``end + (start - end) * (1 - point / length) ** power``.

    Args:
        start: the first value.
        end: the last one.
        length: how long it takes.
        power: 1 is a straight line, 2 is fast at first and slow in the end.

    Raises:
        ConfigError: A number is not finite, or the length or power are not positive.

    Source:
        ``tf.train.polynomial_decay``.
    """

    start: float
    end: float
    length: float
    power: float = 1.0

    def __post_init__(self) -> None:
        _check_ends(self)
        check_number(self, "power", self.power, 0, is_low_allowed=False)

    def _value(self, point: float) -> float:
        return self.end + (self.start - self.end) * (1 - point / self.length) ** self.power


@check_arguments
@dataclass(frozen=True)
class Linear(Schedule):
    """A straight line.

    Args:
        start: the first value.
        end: the last one.
        length: how long it takes.

    Raises:
        ConfigError: A number is not finite, or the length is not positive.
    """

    start: float
    end: float
    length: float

    def __post_init__(self) -> None:
        _check_ends(self)

    def _value(self, point: float) -> float:
        return self.start + (self.end - self.start) * (point / self.length)


@check_arguments
@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a period of a cosine: slow at both ends.

    Args:
        start: the first value.
        end: the last one.
        length: how long it takes.

    Raises:
        ConfigError: A number is not finite, or the length is not positive.

    Source:
        Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017, equation 5.
    """

    start: float
    end: float
    length: float

    def __post_init__(self) -> None:
        _check_ends(self)

    def _value(self, point: float) -> float:
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * point / self.length)) / 2


@check_arguments
@dataclass(frozen=True)
class Step(Schedule):
    """One value until a point, another from there on.

    Args:
        start: the first value.
        changes: {point: value from there on}.

    Raises:
        ConfigError: There is no change, one is not after the beginning, or a number is not finite.

    Example:
        ``Step(0.1, {30: 0.01, 60: 0.001})``
    """

    start: float
    changes: Mapping[float, float]

    def __post_init__(self) -> None:
        check_number(self, "start", self.start)
        if not self.changes:
            raise ConfigError("Step wants at least one change, such as {30: 0.01}, got none")
        for point, value in self.changes.items():
            check_number(self, "a point of changes", point, 0, is_low_allowed=False)
            check_number(self, "a value of changes", value)
        # Frozen, so that what was checked stays so.
        object.__setattr__(self, "changes", dict(sorted(self.changes.items())))
        object.__setattr__(self, "length", float(max(self.changes)))

    def _value(self, point: float) -> float:
        value = self.start
        for at, later in self.changes.items():
            if at <= point:
                value = later
        return value

    def steps_left_at(self, point: int) -> int:
        """Return after how many more epochs or steps the next change is."""
        return next((math.ceil(at) - point for at in self.changes if math.ceil(at) > point), sys.maxsize)


class _OfParts(Schedule):
    """A schedule that is a chain of others."""

    _chain: "Chain"

    def _value(self, point: float) -> float:
        return self._chain.value_at(point)


@check_arguments
@dataclass(frozen=True)
class WarmUp(_OfParts):
    """A straight line to the first value of a schedule, which begins when that is reached.

    Args:
        schedule: what comes after it.
        length: how long the line is; the schedule's own length is added.
        start: where it begins.

    Raises:
        WrongTypeError: ``schedule`` is none.
        ConfigError: The length is not positive, or a number is not finite.

    Source:
        Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.2.
    """

    schedule: Schedule
    length: float
    start: float = 0.0

    def __post_init__(self) -> None:
        check_instance(self, "schedule", self.schedule, Schedule)
        line = Linear(self.start, self.schedule.value_at(0), self.length)
        object.__setattr__(self, "_chain", Chain(line, self.schedule))
        object.__setattr__(self, "length", self._chain.length)


@check_arguments
@dataclass(frozen=True)
class OneCycle(_OfParts):
    """Up to a peak and down far below the beginning, each half a period of a cosine.

    Args:
        peak: the largest value.
        length: how long both take.
        rise: which part of it the rise takes.
        start: the first value; None is a 25th of the peak.
        end: the last one; None is a ten-thousandth of the first.

    Raises:
        ConfigError: A number is not finite, the length is not positive, or the rise is not between 0 and 1.

    Source:
        Smith and Topin, "Super-Convergence", 2018; the defaults are PyTorch's.
    """

    peak: float
    length: float
    rise: float = 0.3
    start: float | None = None
    end: float | None = None

    def __post_init__(self) -> None:
        check_number(self, "rise", self.rise, 0, 1, is_low_allowed=False)
        if self.rise == 1:
            raise ConfigError("OneCycle got rise=1: expected a part of the length that leaves something for the fall")
        start = self.peak / 25 if self.start is None else self.start
        end = start / 1e4 if self.end is None else self.end
        up = Cosine(start, self.peak, self.rise * self.length)
        object.__setattr__(self, "_chain", Chain(up, Cosine(self.peak, end, (1 - self.rise) * self.length)))


@check_arguments
@dataclass(frozen=True)
class Chain(Schedule):
    """One schedule after the other, as `Schedule.then` makes it.

    Args:
        first: until its length.
        second: what begins there, at its own beginning.

    Raises:
        WrongTypeError: One of them is no schedule.
        ConfigError: The first has no length.
    """

    first: Schedule
    second: Schedule

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            check_instance(self, name, getattr(self, name), Schedule)
        if not self.first.length > 0:
            raise ConfigError(f"{self.first} has no length, so that nothing can come then: give it one")
        object.__setattr__(self, "length", self.first.length + self.second.length)

    def _value(self, point: float) -> float:
        is_first = point < self.first.length
        return self.first.value_at(point) if is_first else self.second.value_at(point - self.first.length)


@check_arguments
@dataclass(frozen=True)
class Scaled(Schedule):
    """A schedule with all values multiplied by a number, as `Schedule.scaled` makes it.

    Args:
        schedule: the schedule.
        factor: the number.

    Raises:
        WrongTypeError: ``schedule`` is none.
        ConfigError: The factor is not finite.
    """

    schedule: Schedule
    factor: float

    def __post_init__(self) -> None:
        check_instance(self, "schedule", self.schedule, Schedule)
        check_number(self, "factor", self.factor)
        object.__setattr__(self, "length", self.schedule.length)

    def _value(self, point: float) -> float:
        return self.factor * self.schedule.value_at(point)


_NAMES = {kind.__name__: kind for kind in (Constant, Linear, Cosine, Polynomial, Step, WarmUp, OneCycle)}


@check_arguments
def parse_schedule(text: str) -> Schedule:
    """Read a schedule as it is written in Python, such as ``"WarmUp(Cosine(0.1, 0, 85), 5)"``; nothing is run.

    Args:
        text: calls of this module's schedules, of ``then`` and ``scaled``, with numbers and dicts of them.

    Raises:
        ConfigError: It is something else, or the schedule cannot be.
    """
    try:
        made = _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ConfigError(
            f"expected a schedule of {', '.join(_NAMES)}, such as 'WarmUp(Cosine(0.1, 0, 85), 5)', got "
            f"{text!r}: {error}"
        ) from error
    if not isinstance(made, Schedule):
        raise ConfigError(f"expected a schedule of {', '.join(_NAMES)}, got {shown(made)}")
    return made


def _evaluated(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    arguments = [_evaluated(argument) for argument in node.args]
    named = {keyword.arg: _evaluated(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    function = node.func
    if isinstance(function, ast.Name) and function.id in _NAMES:
        return _NAMES[function.id](*arguments, **named)
    if isinstance(function, ast.Attribute) and function.attr in ("then", "scaled"):
        return getattr(_evaluated(function.value), function.attr)(*arguments, **named)
    raise ValueError(f"there is no {ast.unparse(function)}")


def _check_ends(schedule: Any) -> None:
    check_number(schedule, "start", schedule.start)
    check_number(schedule, "end", schedule.end)
    check_number(schedule, "length", schedule.length, 0, is_low_allowed=False)
