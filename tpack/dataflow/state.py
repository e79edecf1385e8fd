"""Positions in flows as plain values, so that an interrupted run goes on with the very next data point.

A state is a dict of numbers, strings, arrays, lists and dicts, which `tpack.utils.serialize` takes. It names the flow
it belongs to: a state that is loaded into another kind of flow is refused before anything changes. Nothing in a state
is shared with the flow that gave it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tpack.errors import InputError

_FLOW = "flow"


class StatelessError(InputError, NotImplementedError):
    """The position of a flow was asked for, and the flow cannot tell it or cannot go back to one."""


def make_state(owner: Any, **parts: Any) -> dict[str, Any]:
    """Return a state of a flow.

    Args:
        owner: the flow.
        **parts: the values that make up its position.
    """
    return {_FLOW: type(owner).__name__, **parts}


def read_state(owner: Any, state: Any, *names: str) -> list[Any]:
    """Return the parts of a state, in the order asked for.

    Args:
        owner: the flow that the state is loaded into.
        state: what ``make_state`` gave, maybe in an earlier run.
        *names: the parts that this kind of flow has.

    Raises:
        InputError: It is no state, belongs to another kind of flow, or has other parts.
    """
    kind = type(owner).__name__
    if not isinstance(state, Mapping) or _FLOW not in state:
        raise InputError(f"{kind} got {state!r:.100}: wanted a state that state_dict() returned")
    if state[_FLOW] != kind:
        raise InputError(
            f"{kind} got the state of a {state[_FLOW]}: the dataflow must be built as in the run that saved it"
        )
    found = sorted(set(state) - {_FLOW})
    if found != sorted(names):
        raise InputError(f"the state of a {kind} has the parts {found}: wanted {sorted(names)}")
    return [state[name] for name in names]


def read_count(owner: Any, name: str, value: Any, *, at_most: int | None = None) -> int:
    """Return a part of a state that is a number of things.

    Args:
        owner: the flow that the state is loaded into, for the message.
        name: the part.
        value: what the state has there.
        at_most: the greatest number that makes sense.

    Raises:
        InputError: It is no integer, is negative or too great.
    """
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or value < 0 or (at_most is not None and value > at_most):
        wanted = "at least 0" if at_most is None else f"0 to {at_most}"
        raise InputError(
            f"the state of a {type(owner).__name__} has {name}={value!r:.100}: wanted an integer, {wanted}"
        )
    return int(value)


def read_flag(owner: Any, name: str, value: Any) -> bool:
    """Return a part of a state that is true or false.

    Args:
        owner: the flow that the state is loaded into, for the message.
        name: the part.
        value: what the state has there.

    Raises:
        InputError: It is neither.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"the state of a {type(owner).__name__} has {name}={value!r:.100}: wanted True or False")
    return bool(value)


def rng_state(rng: np.random.RandomState) -> list[Any]:
    """Return the state of a generator of random numbers."""
    kind, keys, position, has_gauss, cached = rng.get_state(legacy=True)
    return [kind, np.array(keys), int(position), int(has_gauss), float(cached)]


def rng_from_state(state: Any) -> np.random.RandomState:
    """Return a generator in a state that ``rng_state`` returned.

    Raises:
        InputError: It is no such state.
    """
    rng = np.random.RandomState()
    try:
        rng.set_state(tuple(state))
    except (TypeError, ValueError, LookupError) as error:
        raise InputError(f"{state!r:.100} is no state of a generator of random numbers: {error}") from error
    return rng
