"""The state of a flow's iteration as plain values: made, checked and read again by the flow itself.

A state is a dict of numbers, strings, arrays, lists and dicts, as `tpack.utils.serialize` takes. It names its kind of
flow; another kind refuses it before anything changes. The position of the *consumer* of a flow that is read ahead is in
`tpack.dataflow.checkpoint`.
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
    """A flow cannot tell its position, or cannot go to one."""


def make_state(owner: object, **parts: object) -> dict[str, Any]:
    """Return a state of a flow, of the values of its position."""
    return {_FLOW: type(owner).__name__, **parts}


class StateReader:
    """The parts of a state that is being loaded, each checked when it is read.

    A flow reads all of them, by the names of its kind, before it changes anything.

    Raises:
        InputError: It is not a state, or that of another kind of flow or of other parts. The methods raise it if the
            part is of another type.
    """

    def __init__(self, owner: object, state: object, *names: str) -> None:
        self._kind = kind = type(owner).__name__
        if not isinstance(state, Mapping) or _FLOW not in state:
            raise InputError(f"{kind} got {state!r:.100}: expected a state that state_dict() returned")
        if state[_FLOW] != kind:
            raise InputError(
                f"{kind} got the state of a {state[_FLOW]}: build the dataflow as in the run that saved it"
            )
        found = sorted(set(state) - {_FLOW})
        if found != sorted(names):
            raise InputError(f"{kind} got a state with the parts {found}: expected {sorted(names)}")
        self._parts = state

    def __getitem__(self, name: str) -> Any:
        """Return a part unchecked, such as the state of a wrapped flow, which that flow checks."""
        return self._parts[name]

    def count(self, name: str, *, at_most: int | None = None) -> int:
        """Return a part that is an integer from 0 to a maximum; refuse others."""
        value = self._parts[name]
        is_number = is_integer(value)
        if not is_number or value < 0 or (at_most is not None and value > at_most):
            expected = "of at least 0" if at_most is None else f"from 0 to {at_most}"
            raise InputError(f"{self._kind} got a state with {name}={value!r:.100}: expected an integer {expected}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Return a part that is a bool; refuse others."""
        value = self._parts[name]
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{self._kind} got a state with {name}={value!r:.100}: expected True or False")
        return bool(value)

    def generator(self, name: str) -> "np.random.RandomState":
        """Return a random number generator in the state that ``rng_state`` returned."""
        return rng_from_state(self._parts[name])

    def generator_of_order(self, name: str, *, shuffle: bool) -> "np.random.RandomState | None":
        """Return the generator of the order of a pass, None without shuffling; refuse the other case."""
        if (self._parts[name] is not None) != bool(shuffle):
            raise InputError(f"{self._kind} got the state of one with shuffle={not shuffle}: expected {shuffle}")
        return self.generator(name) if shuffle else None

    def points(self, name: str, *, at_most: int | None = None) -> list[Any]:
        """Return the data points that ``freeze_points`` turned into bytes; refuse other bytes."""
        frozen = self._parts[name]
        message = f"{self._kind} got a state without data points in {name!r}"
        if not isinstance(frozen, bytes):
            raise InputError(f"{message}: expected bytes, not a {type(frozen).__name__}")
        try:
            points = [tuple(point) if is_tuple else point for is_tuple, point in serialize.loads(frozen)]
        except (InputError, TypeError, ValueError) as error:
            raise InputError(f"{message}: {error}") from error
        if at_most is not None and len(points) > at_most:
            raise InputError(f"{self._kind} got a state with {len(points)} data points: expected at most {at_most}")
        return points


def freeze_points(owner: object, points: Sequence[Any]) -> bytes:
    """Turn data points that a flow keeps back, and cannot get again by a position, into bytes as a part of its state.

    Raises:
        StatelessError: A data point cannot be serialized.
    """
    try:
        return serialize.dumps([[isinstance(point, tuple), point] for point in points])
    except DataPointError as error:
        name = type(owner).__name__
        raise StatelessError(f"{name} cannot save its position with the data points in its buffer: {error}") from error


def rng_state(rng: "np.random.RandomState") -> list[Any]:
    """Return the state of a random number generator."""
    kind, keys, position, has_gauss, cached = rng.get_state(legacy=True)
    return [kind, np.array(keys), int(position), int(has_gauss), float(cached)]


def rng_from_state(state: Any) -> "np.random.RandomState":
    """Return a generator in a state that ``rng_state`` returned; raise InputError for another value."""
    # numpy believes the numbers, and reads beyond the end of its array where the position is too large.
    if not _is_rng_state(state):
        raise InputError(
            f"a random number generator got state={shown(state)}: expected 'MT19937', {_NUM_KEYS} keys of uint32, a "
            f"position from 0 to {_NUM_KEYS}, 0 or 1, and a finite number"
        )
    rng = np.random.RandomState()
    rng.set_state(tuple(state))
    return rng


def _is_rng_state(state: Any) -> bool:
    """Tell whether a value is a state of numpy's Mersenne Twister, with all numbers in their ranges."""
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
        value: its place in the flow's own terms: a number or a tuple, never changed in place.
        drawn_from: the state of the generator from which its order was drawn, if any.
    """

    def __init__(self, value: Value, drawn_from: list[Any] | None = None) -> None:
        self.value = value
        self.drawn_from = drawn_from


class Passes(Generic[Value]):
    """The place of the newest pass over a flow, and the beginning of the next.

    Several loops may iterate a flow at a time, leave it in the middle and begin again. The position is that of the pass
    that was begun last, so each pass has a value of its own.

    Args:
        first: where a pass begins by default.
    """

    def __init__(self, first: Value) -> None:
        self._first = first
        self._start = first
        self._newest: Pass[Value] | None = None

    @property
    def value(self) -> Value:
        """The place of the newest pass; the beginning of the next if there is none or it has ended."""
        return self._start if self._newest is None else self._newest.value

    @property
    def next_start(self) -> Value:
        """The beginning of the next pass."""
        return self._start

    @property
    def has_newest(self) -> bool:
        """Whether a pass was begun and has not ended, though it may have been abandoned."""
        return self._newest is not None

    @property
    def is_sent(self) -> bool:
        """Whether the next pass begins in the middle: ``go_to`` was called and no pass begun since."""
        return self._newest is None and self._start != self._first

    def drawn_from(self, rng: "np.random.RandomState") -> list[Any]:
        """Return the generator's state at the beginning of the newest pass, or the current one without a pass."""
        started = None if self._newest is None else self._newest.drawn_from
        return rng_state(rng) if started is None else copy.deepcopy(started)

    def begin(self, rng: "np.random.RandomState | None" = None) -> Pass[Value]:
        """Begin a pass, the newest; its order is drawn from ``rng`` after this call."""
        self._newest = Pass(self._start, None if rng is None else rng_state(rng))
        self._start = self._first
        return self._newest

    def end(self, ended: Pass[Value]) -> bool:
        """Mark a pass as ended; return whether it was the newest."""
        is_newest = self._newest is ended
        if is_newest:
            self._newest = None
        return is_newest

    def go_to(self, value: Value) -> None:
        """Let the next pass begin at a value, and forget the newest."""
        self._newest = None
        self._start = value

    def reset(self) -> None:
        """Let the next pass begin at the default, and forget the newest."""
        self.go_to(self._first)

    def give_up(self, draw: Callable[[], object]) -> None:
        """Give up the rest of the newest pass in a flow that draws its order when a pass begins.

        A continued run has drawn the order of the pass; ``draw`` does it again if the pass has not begun here.
        """
        if self.is_sent:
            draw()
        self.reset()


def skip(owner: object, points: Iterator[Any], count: int) -> None:
    """Drop ``count`` data points taken before an interruption; raise InputError if there are fewer."""
    found = sum(1 for _ in islice(points, count))
    if found < count:
        name = type(owner).__name__
        raise InputError(f"{name} got a position after {count} data points and has only {found}: the data has changed")


def close_iterator(points: Iterator[Any]) -> None:
    """Close an abandoned iterator, if its kind can be closed, as generators can."""
    close = getattr(points, "close", None)
    if close is not None:
        close()
