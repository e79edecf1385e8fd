"""What a DataFlow is: an object that can be iterated any number of times and yields data points.

A data point is a list or tuple of components (arrays, numbers, strings), or a dict of them. Flows are combined by
wrapping: ``BatchData(MapData(source, func), 32)`` is a DataFlow again. Every flow has the same methods, and whoever
iterates it calls ``reset_state`` once before, in the process that iterates.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from tpack.dataflow.iterator_state import StatelessError, StateReader, make_state
from tpack.errors import InputError
from tpack.utils.renames import FLOW_METHODS, on_subclass
from tpack.utils.rng import get_rng
from tpack.utils.validation import check_arguments


class DataFlowTerminated(InputError):
    """The flow can give no more data, now or when iterated again: something it depends on is gone."""


class UnknownLengthError(InputError, NotImplementedError, TypeError):
    """The length of a flow was asked for and is not known.

    A NotImplementedError, as scripts expect. Also a TypeError, since ``list(flow)`` asks for the length as a hint, and
    that is the one exception it takes for "no hint".
    """


class DataFlow(ABC):
    """The base of all flows; a subclass has ``__iter__`` and, if it can, ``__len__``."""

    def __init_subclass__(cls) -> None:
        on_subclass(cls, FLOW_METHODS)

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Begin a pass over the data and yield its data points."""

    def __len__(self) -> int:
        """Return the number of data points of a pass.

        Raises:
            UnknownLengthError: It is not known; that is what a flow says that does not override this.
        """
        raise UnknownLengthError(f"{type(self).__name__} does not know its length")

    def __bool__(self) -> bool:
        """Return True, so that ``if ds`` asks whether there is a flow, and not whether it knows of a data point."""
        return True

    def reset_state(self) -> None:  # noqa: B027 (most flows have nothing to reset)
        """Prepare for iteration in this process: seed generators, open what cannot be sent to another process.

        Called once before the first iteration. A flow that wraps others passes it on, once to each.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the position right after the last data point that was taken from the newest iteration.

        Before the first iteration, and after a pass has ended, it is the beginning of the next pass. It may be asked
        for after ``reset_state``, by the thread that iterates or while nothing iterates.

        Returns:
            Numbers, strings, arrays, lists and dicts (see ``tpack.dataflow.iterator_state``) that nothing changes later on.

        Raises:
            StatelessError: The flow cannot tell; that is what a flow says that does not override this.
        """
        raise StatelessError(f"{type(self).__name__} cannot tell its position: it has no state_dict()")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration go on at a position: it yields the rest of the pass that was interrupted.

        Called after ``reset_state``, on a flow built as the one that gave the state. The passes after that one are
        those that would have come without the interruption.

        Args:
            state: what ``state_dict`` returned.

        Raises:
            StatelessError: The flow cannot go to a position.
            InputError: It is not a state of a flow of this kind; nothing was changed.
        """
        raise StatelessError(f"{type(self).__name__} cannot go to a position: it has no load_state_dict()")

    def end_pass(self) -> None:  # noqa: B027 (a flow without a position has nothing to do)
        """Give up the rest of the newest pass: the position becomes the beginning of the next one.

        Without this call a pass that was broken off can still be gone on with from ``state_dict()``. A flow that ends
        its own pass before those of the flows it wraps, as ``JoinData`` does, calls it on them; every flow that tells
        its position has it. The next iteration yields what it would have yielded without the call.
        """


class RNGDataFlow(DataFlow):
    """A flow with a generator of random numbers, ``self.rng``, from ``reset_state`` on."""

    _rng: np.random.RandomState | None = None

    @property
    def rng(self) -> np.random.RandomState:
        """The generator, an ``np.random.RandomState`` that no other flow uses.

        Raises:
            InputError: ``reset_state`` was not called.
        """
        if self._rng is None:
            raise InputError(f"{type(self).__name__} needs random numbers: call reset_state() once before iterating it")
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.RandomState) -> None:
        self._rng = rng

    def reset_state(self) -> None:
        """Get a new generator."""
        self.rng = get_rng(self)


@check_arguments
class ProxyDataFlow(DataFlow):
    """A flow that wraps another, ``self.ds``, and yields the same; subclasses change what they want.

    Its position is that of the wrapped flow. A subclass that takes points before they are asked for, or keeps some
    back, overrides ``state_dict``, ``load_state_dict`` and ``end_pass`` too.

    Args:
        ds: the flow.

    Raises:
        WrongTypeError: ``ds`` is not a DataFlow.
    """

    def __init__(self, ds: DataFlow) -> None:
        self.ds = ds

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ds)

    def __len__(self) -> int:
        return len(self.ds)

    def reset_state(self) -> None:
        """Reset the wrapped flow."""
        self.ds.reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow as this one's."""
        return make_state(self, ds=self.ds.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position."""
        saved = StateReader(self, state, "ds")
        self.ds.load_state_dict(saved["ds"])

    def end_pass(self) -> None:
        """Give up the rest of the wrapped flow's pass."""
        self.ds.end_pass()


def length_or_none(ds: DataFlow) -> int | None:
    """Return the length of a flow, or None if it does not know it."""
    try:
        return len(ds)
    except NotImplementedError:
        return None


def flows_in(ds: DataFlow) -> Iterator[DataFlow]:
    """Yield a flow, and those that it takes its points from, and so on."""
    yield ds
    for inner in wrapped_flows(ds):
        yield from flows_in(inner)


def wrapped_flows(ds: Any) -> list[DataFlow]:
    """Return the flows that a flow takes its points from; none where it is a source."""
    inner = [ds.ds] if hasattr(ds, "ds") else getattr(ds, "df_lists", getattr(ds, "flows", ()))
    return [flow for flow in inner if isinstance(flow, DataFlow)]


def close_flow(ds: DataFlow) -> bool:
    """End the threads and processes that a flow, or one in it, has started; return whether one of them has such."""
    closable = [flow for flow in flows_in(ds) if hasattr(flow, "close")]
    for flow in closable:
        flow.close()
    return bool(closable)


class DataFlowReentrantGuard:
    """A ``with`` block that only one iteration can be in; it pickles as a free one.

    Most flows allow several at a time. One that keeps its position between iterations does not: the two would take each
    other's data.

    Args:
        owner: what is guarded, for the message.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self._owner,)

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._owner} is being iterated already: expected one iteration at a time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
