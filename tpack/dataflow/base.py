"""The base of all flows: objects that can be iterated any number of times and yield data points.

A data point is a list or tuple of components (arrays, numbers, strings), or a dict of them. Flows are combined by
wrapping: ``BatchData(MapData(source, func), 32)`` is a DataFlow again.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from tpack.dataflow.iterator_state import Passes, StatelessError, StateReader, make_state
from tpack.errors import InputError
from tpack.utils.renames import FLOW_METHODS, on_subclass
from tpack.utils.rng import get_rng
from tpack.utils.validation import check_arguments


class DataFlowTerminated(InputError):
    """The flow can give no more data, now or when iterated again: something it depends on is gone."""


class UnknownLengthError(InputError, NotImplementedError, TypeError):
    """The length of a flow was asked for and is not known.

    Scripts expect NotImplementedError; ``list(flow)``, which asks for a hint, ignores only TypeError.
    """


class DataFlow(ABC):
    """The base of all flows; a subclass has ``__iter__`` and, if it can, ``__len__``.

    Subclasses inherit the declarations in the attributes.

    Attributes:
        keeps_each_point: whether each data point is one of the wrapped flow ``ds``, unchanged, so that the size of a
            batch known there is that of the points here.
        reads_ahead: whether points are taken from ``ds`` before they are asked for. Such a flow makes its state with
            `tpack.dataflow.checkpoint.Position`, and has ``map_func`` if its points are not those of ``ds``.
        holds_nothing_back: whether all points that were taken from ``ds`` are yielded or part of the newest batch, so
            that several workers can share out the rest of an epoch. Ask `holds_back`.
    """

    keeps_each_point = False
    reads_ahead = False
    holds_nothing_back = False
    # The position of a subclass in its own passes, if it has one.
    _passes: Passes[Any] | None = None

    def __init_subclass__(cls) -> None:
        on_subclass(cls, FLOW_METHODS)

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Begin a pass over the data and yield its data points."""

    def __len__(self) -> int:
        """Return the number of data points of a pass; raise UnknownLengthError where it is not known."""
        raise UnknownLengthError(f"{type(self).__name__} does not know its length")

    def __bool__(self) -> bool:
        """Return True, so that ``if ds`` asks for a flow and not for data points."""
        return True

    def reset_state(self) -> None:
        """Prepare for iteration in this process: seed generators, open what cannot be sent to another process.

        Called once before the first iteration. A flow that wraps others calls it once on each.
        """
        if self._passes is not None:
            self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the position right after the last data point that was taken from the newest iteration.

        Before the first iteration and after the end of a pass it is the beginning of the next pass. Callable after
        ``reset_state``, in the thread that iterates or while nothing iterates. The values are plain (see
        ``tpack.dataflow.iterator_state``) and never changed later.

        Raises:
            StatelessError: The flow has no position, as flows that do not override this.
        """
        raise StatelessError(f"{type(self).__name__} cannot tell its position: it has no state_dict()")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration yield the rest of an interrupted pass, and later ones follow as without interruption.

        Called after ``reset_state``, on a flow built as the one that gave the state.

        Raises:
            StatelessError: The flow cannot go to a position.
            InputError: It is not a state of such a flow; nothing was changed.
        """
        raise StatelessError(f"{type(self).__name__} cannot go to a position: it has no load_state_dict()")

    def end_pass(self) -> None:
        """Give up the rest of the newest pass: the position becomes the beginning of the next one.

        Otherwise an interrupted pass can be continued from ``state_dict()``; the next iteration yields the same in any
        case. A flow that ends its pass before those of wrapped flows, as ``JoinData`` does, calls it on them.
        """
        if self._passes is not None:
            self._passes.reset()


class RNGDataFlow(DataFlow):
    """A flow with a generator of random numbers, ``self.rng``, from ``reset_state`` on."""

    _rng: "np.random.RandomState | None" = None

    @property
    def rng(self) -> "np.random.RandomState":
        """The flow's own ``np.random.RandomState``; raise InputError before ``reset_state``."""
        if self._rng is None:
            raise InputError(f"{type(self).__name__} needs random numbers: call reset_state() once before iterating it")
        return self._rng

    @rng.setter
    def rng(self, rng: "np.random.RandomState") -> None:
        self._rng = rng

    def reset_state(self) -> None:
        """Get a new generator and forget the position."""
        DataFlow.reset_state(self)
        self.rng = get_rng(self)


@check_arguments
class ProxyDataFlow(DataFlow):
    """A flow that wraps another, ``self.ds``, and yields the same; subclasses override what differs.

    A subclass that reads ahead, or holds points back, overrides ``state_dict``, ``load_state_dict`` and ``end_pass``
    too. The constructor raises WrongTypeError if ``ds`` is not a DataFlow.
    """

    def __init__(self, ds: DataFlow) -> None:
        self.ds = ds

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ds)

    def __len__(self) -> int:
        return len(self.ds)

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position."""
        DataFlow.reset_state(self)
        self.ds.reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow as this one's."""
        return make_state(self, ds=self.ds.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position."""
        saved = StateReader(self, state, "ds")
        self.ds.load_state_dict(saved["ds"])

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        DataFlow.end_pass(self)
        self.ds.end_pass()


def length_or_none(ds: DataFlow) -> int | None:
    """Return the length of a flow, or None if it does not know it."""
    try:
        return len(ds)
    except NotImplementedError:
        return None


def flows_in(ds: DataFlow) -> Iterator[DataFlow]:
    """Yield a flow and all flows in it, from the outside inwards."""
    yield ds
    for inner in wrapped_flows(ds):
        yield from flows_in(inner)


def wrapped_flows(ds: Any) -> list[DataFlow]:
    """Return the flows that a flow takes its points from; none of a source."""
    inner = [ds.ds] if hasattr(ds, "ds") else getattr(ds, "df_lists", getattr(ds, "flows", ()))
    return [flow for flow in inner if isinstance(flow, DataFlow)]


def holds_back(ds: DataFlow) -> bool:
    """Tell whether a flow may hold back points of the flow inside: a source, or undeclared with its own state."""
    for kind in type(ds).__mro__:
        if "holds_nothing_back" in vars(kind) or "state_dict" in vars(kind):
            return kind is not ProxyDataFlow and not vars(kind).get("holds_nothing_back", False)
    return True


def close_flow(ds: DataFlow) -> bool:
    """End the threads and processes that a flow, or one in it, has started; return whether there is such a flow."""
    closable = [flow for flow in flows_in(ds) if hasattr(flow, "close")]
    for flow in closable:
        flow.close()
    return bool(closable)


class DataFlowReentrantGuard:
    """A ``with`` block that only one iteration of its owner, a flow's name, can be in; it pickles as a free one.

    For flows that keep their position between iterations: two iterations would take each other's data.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self._owner,)

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(f"{self._owner} is being iterated already: end that iteration before the next one")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
