"""Positions in flows as plain values, so that an interrupted run goes on with the very next data point.

A state is a dict of numbers, strings, arrays, lists and dicts, which `tpack.utils.serialize` takes. It names the flow
it belongs to: one that is loaded into another kind of flow is refused before anything changes. Nothing in a state is
shared with the flow that gave it. Each flow that tells its position makes its state with `make_state`, reads it with a
`StateReader`, and has `Passes` if it must know how far its newest pass has come. Where the consumer of a flow is that
is read ahead of it, `tpack.dataflow.checkpoint` knows.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from tpack.errors import DataPointError, InputError
from tpack.utils import serialize
from tpack.utils.validation import is_integer, shown

_FLOW = "flow"
# How many numbers a Mersenne Twister holds.
_NUM_KEYS = 624
Value = TypeVar("Value")


class StatelessError(InputError, NotImplementedError):
    """The position of a flow was asked for, and the flow cannot tell it or cannot go back to one."""


def make_state(owner: object, **parts: object) -> dict[str, Any]:
    """Return a state of a flow.

    Args:
        owner: the flow.
        **parts: the values that make up its position.
    """
    return {_FLOW: type(owner).__name__, **parts}


class StateReader:
    """The parts of a state that is being loaded, each checked when it is read.

    A flow reads all of them before it changes anything.

    Args:
        owner: the flow that the state is loaded into.
        state: what ``make_state`` gave, maybe in an earlier run.
        *names: the parts that this kind of flow has.

    Raises:
        InputError: It is not a state, belongs to another kind of flow, or has other parts. Each method raises it if the
            part is of another kind than asked for.
    """

    def __init__(self, owner: object, state: object, *names: str) -> None:
        self._kind = kind = type(owner).__name__
        if not isinstance(state, Mapping) or _FLOW not in state:
            raise InputError(f"{kind} got {state!r:.100}: expected a state that state_dict() returned")
        if state[_FLOW] != kind:
            raise InputError(
                f"{kind} got the state of a {state[_FLOW]}: the dataflow must be built as in the run that saved it"
            )
        found = sorted(set(state) - {_FLOW})
        if found != sorted(names):
            raise InputError(f"the state of a {kind} has the parts {found}: expected {sorted(names)}")
        self._parts = state

    def __getitem__(self, name: str) -> Any:
        """Return a part, whatever it is; such as the state of a wrapped flow, which that flow checks."""
        return self._parts[name]

    def count(self, name: str, *, at_most: int | None = None) -> int:
        """Return a part that is a number of things; refuse what is not, or is more than makes sense."""
        value = self._parts[name]
        if not is_integer(value) or value < 0 or (at_most is not None and value > at_most):
            wanted = "at least 0" if at_most is None else f"0 to {at_most}"
            raise InputError(f"the state of a {self._kind} has {name}={value!r:.100}: expected an integer, {wanted}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Return a part that is true or false; refuse what is neither."""
        value = self._parts[name]
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"the state of a {self._kind} has {name}={value!r:.100}: expected True or False")
        return bool(value)

    def generator(self, name: str) -> np.random.RandomState:
        """Return a generator of random numbers in the state that ``rng_state`` returned."""
        return rng_from_state(self._parts[name])

    def generator_of_order(self, name: str, *, shuffle: bool) -> np.random.RandomState | None:
        """Return the generator that the order of a pass is drawn from, None without; refuse the other case."""
        if (self._parts[name] is not None) != bool(shuffle):
            raise InputError(f"{self._kind} has shuffle={shuffle}, and got the state of one with {not shuffle}")
        return self.generator(name) if shuffle else None

    def points(self, name: str) -> list[Any]:
        """Return the data points that ``freeze_points`` made bytes of; refuse other bytes."""
        frozen = self._parts[name]
        message = f"the state of a {self._kind} holds no data points where it should"
        if not isinstance(frozen, bytes):
            raise InputError(f"{message}, but a {type(frozen).__name__}")
        try:
            return [tuple(point) if is_tuple else point for is_tuple, point in serialize.loads(frozen)]
        except (InputError, TypeError, ValueError) as error:
            raise InputError(f"{message}: {error}") from error


def freeze_points(owner: object, points: Sequence[Any]) -> bytes:
    """Turn data points that a flow keeps back into bytes, as a part of its state.

    A flow that shuffles in a buffer cannot get the points in it again: they are from many places of the wrapped flow.

    Args:
        owner: the flow, for the message.
        points: the data points.

    Raises:
        StatelessError: A data point is made of what cannot be serialized.
    """
    try:
        return serialize.dumps([[isinstance(point, tuple), point] for point in points])
    except DataPointError as error:
        raise StatelessError(
            f"{type(owner).__name__} cannot tell its position, with the data points that it keeps back: {error}"
        ) from error


def rng_state(rng: np.random.RandomState) -> list[Any]:
    """Return the state of a generator of random numbers."""
    kind, keys, position, has_gauss, cached = rng.get_state(legacy=True)
    return [kind, np.array(keys), int(position), int(has_gauss), float(cached)]


def rng_from_state(state: Any) -> np.random.RandomState:
    """Return a generator in a state that ``rng_state`` returned.

    Raises:
        InputError: It is no such state.
    """
    # numpy believes the numbers, and reads behind the end of its array where the position is too large.
    if not _is_rng_state(state):
        raise InputError(
            f"{shown(state)} is no state of a generator of random numbers: expected 'MT19937', {_NUM_KEYS} keys of "
            f"uint32, a position of 0 to {_NUM_KEYS}, 0 or 1, and a finite number"
        )
    rng = np.random.RandomState()
    rng.set_state(tuple(state))
    return rng


def _is_rng_state(state: Any) -> bool:
    """Tell whether something is a state of numpy's Mersenne Twister, with all its numbers in their ranges."""
    if not isinstance(state, (list, tuple)) or len(state) != 5:
        return False
    kind, keys, position, has_gauss, cached = state
    are_keys = isinstance(keys, np.ndarray) and keys.dtype == np.uint32 and keys.shape == (_NUM_KEYS,) and keys.any()
    are_numbers = type(position) is int and type(has_gauss) is int and isinstance(cached, (int, float))
    if kind != "MT19937" or not are_keys or not are_numbers:
        return False
    return 0 <= position <= _NUM_KEYS and has_gauss in (0, 1) and math.isfinite(cached)


class Pass(Generic[Value]):
    """One pass over a flow.

    Args:
        value: where it is, in the flow's own terms: a number or a tuple, never changed in place.
        drawn_from: the state of the generator that its order was drawn from; None if there is no such.
    """

    def __init__(self, value: Value, drawn_from: list[Any] | None = None) -> None:
        self.value = value
        self.drawn_from = drawn_from


class Passes(Generic[Value]):
    """Where the newest pass over a flow is, so that it can be told, and where the next begins.

    A flow may be iterated by several loops at a time, may be left in the middle and begun again. Its position is that
    of the pass that was begun last. Each pass therefore holds a value of its own.

    Args:
        first: where a pass begins that was not sent to another place.
    """

    def __init__(self, first: Value) -> None:
        self._first = first
        self._start = first
        self._newest: Pass[Value] | None = None

    @property
    def value(self) -> Value:
        """Where the newest pass is; or, if there is none or it has ended, where the next begins."""
        return self._start if self._newest is None else self._newest.value

    @property
    def next_start(self) -> Value:
        """Where the next pass begins."""
        return self._start

    @property
    def has_newest(self) -> bool:
        """Whether a pass was begun and has not ended, be it one that nobody goes on with."""
        return self._newest is not None

    @property
    def is_sent(self) -> bool:
        """Whether the next pass is to begin in the middle: ``go_to`` was called and no pass begun since."""
        return self._newest is None and self._start != self._first

    def drawn_from(self, rng: np.random.RandomState) -> list[Any]:
        """Return the state that the flow's generator had when the newest pass was begun; or has, if there is none."""
        started = None if self._newest is None else self._newest.drawn_from
        return rng_state(rng) if started is None else copy.deepcopy(started)

    def begin(self, rng: np.random.RandomState | None = None) -> Pass[Value]:
        """Begin a pass, which is the newest from now on.

        Args:
            rng: the generator that the order of the pass is drawn from, after this call.
        """
        self._newest = Pass(self._start, None if rng is None else rng_state(rng))
        self._start = self._first
        return self._newest

    def end(self, ended: Pass[Value]) -> bool:
        """Say that a pass has ended; return whether it was the newest."""
        is_newest = self._newest is ended
        if is_newest:
            self._newest = None
        return is_newest

    def go_to(self, value: Value) -> None:
        """Let the next pass begin somewhere, and forget the newest."""
        self._newest = None
        self._start = value

    def reset(self) -> None:
        """Let the next pass begin where passes begin, and forget the newest."""
        self.go_to(self._first)

    def give_up(self, draw: Callable[[], object]) -> None:
        """Give up the rest of the newest pass, in a flow that draws something when a pass begins.

        Args:
            draw: draws it. What the pass that is given up began with was drawn in the run that this one goes on with,
                and is drawn again if the pass has not begun here.
        """
        if self.is_sent:
            draw()
        self.reset()


def skip(owner: object, points: Iterator[Any], count: int) -> None:
    """Take data points that were taken before the interruption, and drop them.

    Args:
        owner: the flow that yields them, for the message.
        points: what to take them from.
        count: how many.

    Raises:
        InputError: There are less.
    """
    found = sum(1 for _ in islice(points, count))
    if found < count:
        raise InputError(
            f"{type(owner).__name__} was to go on after {count} data points and has only {found}: the data has changed"
        )


def close_iterator(points: Iterator[Any]) -> None:
    """Close an iterator that is not gone on with, if it is of a kind that can be closed, as generators are."""
    close = getattr(points, "close", None)
    if close is not None:
        close()
