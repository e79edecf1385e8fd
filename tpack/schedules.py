"""Schedules as values: numbers that follow the progress of training, such as a learning rate.

A schedule maps a point to a value, in epochs or in steps, as its user counts; training begins at 0. Schedules compose:
``WarmUp(Cosine(0.1, 0, length=85), length=5)``. `ScheduledHyperParamSetter` follows one, and ``tpack plot --schedule``
draws it.
"""

import ast
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_instance, check_number, mismatch


class Schedule(ABC):
    """A number at each point of training. After its length, the last value stays.

    Attributes:
        length: the point after which nothing changes, in epochs or steps.
    """

    length: float

    @abstractmethod
    def _value(self, point: float) -> float:
        """Return the value at a point between 0 and the length."""

    def value_at(self, point: float) -> float:
        """Return the value after ``point`` epochs or steps."""
        return float(self._value(min(max(float(point), 0.0), self.length)))

    def change_at(self, point: int) -> float | None:
        """Return the value to set after ``point`` epochs or steps; None where nothing changes."""
        value = self.value_at(point)
        return value if point <= 0 or value != self.value_at(point - 1) else None

    def steps_left_at(self, point: int) -> int:
        """Return the number of epochs or steps until the value may change again."""
        return 1 if point < self.length else sys.maxsize

    @property
    def changes_in_epochs(self) -> bool:
        """Whether it may change between two whole numbers of epochs."""
        return self.length > 0

    def then(self, other: "Schedule") -> "Schedule":
        """Return this schedule followed by another one.

        Raises:
            WrongTypeError: ``other`` is not a schedule.
            ConfigError: This one has no end.
        """
        return Chain(self, other)

    def scaled(self, factor: float) -> "Schedule":
        """Return the schedule with all values multiplied by a number.

        Raises:
            ConfigError: The factor is not a finite number.
        """
        return Scaled(self, factor)


@check_arguments
@dataclass(frozen=True)
class Constant(Schedule):
    """One value, forever or until the next schedule.

    Args:
        value: the value.
        length: the time until the next schedule.

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

    @property
    def changes_in_epochs(self) -> bool:
        """Whether it may change between two whole numbers of epochs: never."""
        return False


@dataclass(frozen=True)
class _BetweenEnds(Schedule):
    """A schedule from one value to another."""

    start: float
    end: float
    length: float

    def __post_init__(self) -> None:
        check_number(self, "start", self.start)
        check_number(self, "end", self.end)
        check_number(self, "length", self.length, 0, is_low_allowed=False)


@check_arguments
@dataclass(frozen=True)
class Polynomial(_BetweenEnds):
    """A power of the remaining share: ``end + (start - end) * (1 - point / length) ** power``.

    Args:
        start: the first value.
        end: the last value.
        length: the duration.
        power: 1 is a straight line, 2 is fast at first and slow in the end.

    Raises:
        ConfigError: A number is not finite, or the length or power are not positive.

    Source:
        ``tf.train.polynomial_decay``.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "power", self.power, 0, is_low_allowed=False)

    def _value(self, point: float) -> float:
        return self.end + (self.start - self.end) * (1 - point / self.length) ** self.power


@check_arguments
@dataclass(frozen=True)
class Linear(_BetweenEnds):
    """A straight line from ``start`` to ``end``; arguments and errors as for `Polynomial`, without ``power``."""

    def _value(self, point: float) -> float:
        return self.start + (self.end - self.start) * (point / self.length)


@check_arguments
@dataclass(frozen=True)
class Cosine(_BetweenEnds):
    """Half a period of a cosine, slow at both ends; arguments and errors as for `Polynomial`, without ``power``.

    Source:
        Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017, equation 5.
    """

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
            raise ConfigError("Step got no changes: expected at least one, such as {30: 0.01}")
        for point, value in self.changes.items():
            check_number(self, "a point of changes", point, 0, is_low_allowed=False)
            check_number(self, "a value of changes", value)
        # A copy, so that the checked values cannot change.
        object.__setattr__(self, "changes", dict(sorted(self.changes.items())))
        object.__setattr__(self, "length", float(max(self.changes)))

    def _value(self, point: float) -> float:
        value = self.start
        for at, later in self.changes.items():
            if at <= point:
                value = later
        return value

    @property
    def changes_in_epochs(self) -> bool:
        """Whether a change is between two whole numbers of epochs."""
        return any(at != int(at) for at in self.changes)

    def steps_left_at(self, point: int) -> int:
        """Return the number of epochs or steps until the next change."""
        return next((math.ceil(at) - point for at in self.changes if math.ceil(at) > point), sys.maxsize)


class _OfParts(Schedule):
    """A schedule that is a chain of others."""

    _chain: "Chain"

    def _value(self, point: float) -> float:
        return self._chain.value_at(point)


@check_arguments
@dataclass(frozen=True)
class WarmUp(_OfParts):
    """A straight line to the first value of a schedule, followed by the schedule.

    Args:
        schedule: the schedule.
        length: the duration of the line, to which that of the schedule is added.
        start: the first value.

    Raises:
        WrongTypeError: ``schedule`` is something else.
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
        length: the duration of both.
        rise: the share of the rise in it.
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
            raise ConfigError("OneCycle got rise=1: expected less, so that there is time for the fall")
        start = self.peak / 25 if self.start is None else self.start
        end = start / 1e4 if self.end is None else self.end
        up = Cosine(start, self.peak, self.rise * self.length)
        object.__setattr__(self, "_chain", Chain(up, Cosine(self.peak, end, (1 - self.rise) * self.length)))


@check_arguments
@dataclass(frozen=True)
class Chain(Schedule):
    """Two schedules in sequence, as `Schedule.then` makes it.

    Args:
        first: until its length.
        second: from there on, from its own beginning.

    Raises:
        WrongTypeError: One of them is not a schedule.
        ConfigError: The first has no length.
    """

    first: Schedule
    second: Schedule

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            check_instance(self, name, getattr(self, name), Schedule)
        if not self.first.length > 0:
            raise ConfigError(f"Chain got first={self.first}: expected a schedule with a length")
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
        WrongTypeError: ``schedule`` is something else.
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
    """Parse a schedule in Python's notation, such as ``"WarmUp(Cosine(0.1, 0, 85), 5)"``, without running code.

    Args:
        text: calls of this module's schedules, of ``then`` and ``scaled``, with numbers and dicts of them.

    Raises:
        ConfigError: The text is something else, or the schedule is invalid.
    """
    try:
        made = _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError) as error:
        expected = f"a schedule of {', '.join(_NAMES)}, such as 'WarmUp(Cosine(0.1, 0, 85), 5)' ({error})"
        raise ConfigError(mismatch("parse_schedule", "text", text, expected)) from error
    if not isinstance(made, Schedule):
        raise ConfigError(mismatch("parse_schedule", "text", text, f"a schedule of {', '.join(_NAMES)}"))
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
