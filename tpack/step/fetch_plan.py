"""A fixed set of fetches, compiled once: flatten, run, and restore the structure.

``session.run`` does this at every call; here it is done once for each distinct set. Callbacks that request the same at
each step return the same object: for such steps, only identities are compared.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import compat
from tpack.errors import ConfigError
from tpack.types import Fetches

NO_VALUES = tf.train.SessionRunValues(results=None, options=None, run_metadata=None)
"""What a callback is told that asked for nothing, or for operations only."""

GraphElement: TypeAlias = tf.Tensor | tf.Operation
_Unflatten = Callable[[Sequence[Any]], Any]


class Way(NamedTuple):
    """A way to run steps.

    Attributes:
        in_caller_thread: whether kernels run in the calling thread, and not in TensorFlow's thread pool.
        in_loop: whether several steps are a loop in the graph, and not made one by one.
    """

    in_caller_thread: bool = False
    in_loop: bool = False


EXECUTORS = {"auto": (False, True), "pool": (False,), "caller": (True,)}
"""Whether kernels may run in the calling thread."""


class FetchPlan:
    """Runs one nest of fetches of a session; calling it returns the values in the same nest.

    Operations have the value None. Composite tensors (sparse, ragged, indexed slices) are left to ``session.run``.

    Args:
        session: an open session.
        fetches: a nest of lists, tuples and dicts of tensors, operations, variables or names.
        feeds: tensors to be fed, or their names, in the order of the values of `run`.
        timeout_in_ms: a time limit for a run; 0 for none.
        in_place_of: returns the element to run for one of the nest: itself, another one, or None.

    Raises:
        ConfigError: Something in the nest is not in the session's graph.
    """

    makes_several_steps = False

    def __init__(
        self,
        session: tf.Session,
        fetches: Fetches,
        feeds: Sequence[tf.Tensor | str] = (),
        *,
        timeout_in_ms: int = 0,
        in_place_of: Callable[[GraphElement], GraphElement | None] = lambda element: element,
    ) -> None:
        self._session = session
        self._in_place_of = in_place_of
        self._timeout_in_ms = timeout_in_ms
        self._feeds = [graph_element(session.graph, feed) for feed in feeds]
        self._tensors: list[tf.Tensor] = []
        self._positions: dict[str, int] = {}
        self._targets: dict[str, tf.Operation] = {}
        # TensorFlow refuses to fetch what it is fed (tensorflow/tensorflow#2422); such a fetch is answered with the
        # value itself.
        self._fed = {feed.name: position for position, feed in enumerate(self._feeds)}
        self._echoes_feeds = False
        # `fetch_key` knows graph elements by their id, which stays theirs only as long as they live.
        self._kept_alive: list[object] = list(feeds)
        self._unflatten = self._compile(fetches)
        if not self._tensors and not self._echoes_feeds:
            # Operations alone have no values, so the nest is the same each time.
            nothing = self._unflatten(())
            self._unflatten = lambda values: nothing
        self._calls: dict[bool, Callable[..., list[Any]]] = {}
        self.use(Way())

    @property
    def runs_anything(self) -> bool:
        """Whether something in the nest has to be run, and is not just fed."""
        return bool(self._tensors or self._targets)

    def with_others(self, in_place_of: Callable[[GraphElement], GraphElement]) -> "FetchPlan":
        """Return a plan of the same structure with each element replaced; itself if all are the same."""
        other = copy(self)
        other._feeds = list(map(in_place_of, self._feeds))
        other._tensors = list(map(in_place_of, self._tensors))
        other._targets = {target.name: target for target in map(in_place_of, self._targets.values())}
        if (other._feeds, other._tensors, other._targets) == (self._feeds, self._tensors, self._targets):
            return self
        other._calls = {}
        other.use(Way())
        return other

    def ways(self, executor: str) -> list[Way]:
        """Return the ways to run with one of `EXECUTORS`."""
        return list(map(Way, EXECUTORS[executor]))

    def use(self, way: Way) -> None:
        """Run in this way from now on."""
        if way.in_caller_thread not in self._calls:
            self._calls[way.in_caller_thread] = self._make_callable(in_caller_thread=way.in_caller_thread)
        self.way = way
        self._call = self._calls[way.in_caller_thread]

    def run(self, *feed_values: np.ndarray) -> Any:
        """Run once, with one array for each of the feeds, of the dtype and a shape of the tensor."""
        values = self._call(*feed_values)
        return self._unflatten([*values, *feed_values] if self._echoes_feeds else values)

    def _make_callable(self, *, in_caller_thread: bool) -> Callable[..., list[Any]]:
        if not self.runs_anything:
            # TensorFlow refuses to make a callable of no fetches.
            return lambda *feed_values: []
        return compat.make_callable(
            self._session,
            feeds=self._feeds,
            fetches=self._tensors,
            targets=list(self._targets.values()),
            in_caller_thread=in_caller_thread,
            timeout_in_ms=self._timeout_in_ms,
        )

    def _compile(self, fetches: Fetches) -> _Unflatten:
        if isinstance(fetches, dict):
            return self._compile_dict(fetches)
        if isinstance(fetches, (list, tuple)):
            return self._compile_sequence(fetches)
        self._kept_alive.append(fetches)
        element = self._in_place_of(graph_element(self._session.graph, fetches))
        if element is None:
            return lambda values: None
        if isinstance(element, tf.Operation):
            self._targets[element.name] = element
            return lambda values: None
        if element.name in self._fed:
            self._echoes_feeds = True
            from_end = self._fed[element.name] - len(self._feeds)
            return lambda values: values[from_end]
        position = self._positions.setdefault(element.name, len(self._positions))
        if position == len(self._tensors):
            self._tensors.append(element)
        return lambda values: values[position]

    def _compile_dict(self, fetches: dict[Any, Fetches]) -> _Unflatten:
        parts = {name: self._compile(value) for name, value in fetches.items()}
        if isinstance(fetches, OrderedDict):
            return lambda values: OrderedDict((name, part(values)) for name, part in parts.items())
        return lambda values: {name: part(values) for name, part in parts.items()}

    def _compile_sequence(self, fetches: list[Fetches] | tuple[Fetches, ...]) -> _Unflatten:
        parts = [self._compile(value) for value in fetches]
        if isinstance(fetches, list):
            return lambda values: [part(values) for part in parts]
        if hasattr(fetches, "_fields"):
            kind = type(fetches)
            return lambda values: kind(*(part(values) for part in parts))
        return lambda values: tuple(part(values) for part in parts)


class RememberedStep:
    """The plan of a run that may be repeated, and its values for each callback.

    The step is identified by the ids of its fetches and requests, which it keeps alive.

    Args:
        plan: fetches a list: the run's own fetches, then those of each request.
        told: the ``after_run`` of each callback, and the position of its request; None for no request.
        fetches: the run's own fetches.
        requests: the results of the callbacks; all `is_constant`.

    Attributes:
        plan: the plan.
        told: the functions to call after the run, with the positions of their values in the result or None.
    """

    def __init__(
        self,
        plan: Any,
        told: Sequence[tuple[Callable[..., object], int | None]],
        fetches: Fetches,
        requests: Sequence[Fetches],
    ) -> None:
        self.plan = plan
        self.told = [(after_run, _value_position(position, requests)) for after_run, position in told]
        self._kept_alive = (fetches, requests)


def fetch_key(fetches: Fetches) -> Hashable:
    """Return a hashable key, equal for two nests of the same structure that hold the same graph elements."""
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *map(fetch_key, fetches))
    if isinstance(fetches, dict):
        return (type(fetches), *((name, fetch_key(value)) for name, value in fetches.items()))
    # A name may be a new string object at each call, anything else is a graph element and the plan keeps it alive.
    return fetches if isinstance(fetches, str) else id(fetches)


def is_composite(fetches: Fetches) -> bool:
    """Tell whether a nest holds composite tensors, which a `FetchPlan` does not take."""
    if isinstance(fetches, (list, tuple)) and not isinstance(fetches, tf.SparseTensorValue):
        return any(map(is_composite, fetches))
    if isinstance(fetches, dict):
        return any(map(is_composite, fetches.values()))
    return isinstance(fetches, (tf.SparseTensor, tf.IndexedSlices, tf.RaggedTensor))


def graph_element(graph: tf.Graph, fetch: object) -> GraphElement:
    """Return the tensor or operation of ``graph`` for a tensor, operation, variable or name.

    Raises:
        ConfigError: There is none.
    """
    try:
        return graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(f"cannot fetch or feed {fetch!r} in this session: {error}") from error


def is_constant(request: Fetches) -> bool:
    """Tell whether a request is the same each time: the content of a list, and feeds, may change."""
    if isinstance(request, tf.train.SessionRunArgs):
        is_plain = request.options is None or timeout_alone(request.options) > 0
        return request.feed_dict is None and is_plain and is_constant(request.fetches)
    if isinstance(request, tuple):
        return all(map(is_constant, request))
    return request is None or isinstance(request, (tf.Tensor, tf.Operation))


def timeout_alone(options: tf.RunOptions | None) -> int:
    """Return the timeout of run options in milliseconds; 0 if they have none, or anything else."""
    if options is None or not options.timeout_in_ms:
        return 0
    return int(options.timeout_in_ms) if options == tf.RunOptions(timeout_in_ms=options.timeout_in_ms) else 0


def _value_position(position: int | None, requests: Sequence[Fetches]) -> int | None:
    request = None if position is None else requests[position]
    wanted = request.fetches if isinstance(request, tf.train.SessionRunArgs) else request
    if position is None or wanted is None or isinstance(wanted, tf.Operation):
        return None
    return position + 1
