"""A fixed set of fetches, compiled once: flatten, run, and restore the structure.

``session.run`` does this at every call; here it is done once for each distinct set. Callbacks that request the same at
each step return the same object: for such steps, only identities are compared.

The first steps of a run autotune the plan: compiled or not, on which executor, in a loop or one by one. The thread pool
of TensorFlow costs tens of microseconds a step. The calling thread saves them, and runs independent kernels one after
the other: it wins on small graphs and loses on large ones. A loop of several steps in the graph, or XLA, may win or
lose. All ways make the same steps (bit for bit; up to rounding for XLA), so the first steps are made in all ways in
turns, and the fastest way is kept. The first few plans are timed separately; the first result, of the usual step, holds
for all.

For XLA there is a second copy of the step. An operation that is marked for XLA in the first run of a session is
compiled from then on. So the step stays unmarked, and all operations that depend on the compiled ones are copied, such
as optimizers and callbacks' operations. Inputs, variables, queues and iterators are shared. Each run makes one of the
two steps, and continues where the last one ended.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from statistics import mean, median
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.operations import mark_for_compilation
from tpack.compat.runtime import make_callable
from tpack.errors import ConfigError
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import NodeCopier, add_to_graph
from tpack.tfutils.dependency import dependents, is_handle
from tpack.types import Fetches
from tpack.utils import logger
from tpack.utils.validation import check_choice

NO_VALUES = tf.train.SessionRunValues(results=None, options=None, run_metadata=None)
"""What a callback is told that asked for nothing, or for operations only."""

GraphElement: TypeAlias = tf.Tensor | tf.Operation
_Unflatten = Callable[[Sequence[Any]], Any]


BLOCK_STEPS = 10
"""The ways take turns in blocks of at least this many steps, so that a passing disturbance affects all."""

NUM_BLOCKS = 4
"""Timed blocks of each way. An untimed one comes before, in which TensorFlow prepares the step and compiles."""

MAX_TRIALS = 4
"""How many plans are timed; others wait in the first way until there is an answer."""

MAX_STEP_SECS = 2e-3
"""A longer step keeps the first way: its executor makes less than a few percent of it."""


_SCOPE = "compiled"


class CompiledCopy:
    """A copy of all operations that depend on some in the current graph, which must be complete.

    Args:
        scopes: the operations for XLA, each with a scope; those of one scope are compiled together.

    Creates:
        As many operations as depend on them.

    Raises:
        ConfigError: Something cannot be copied, since the two steps could not share its state.
    """

    def __init__(self, scopes: Mapping[tf.Operation, str]) -> None:
        graph = tf.get_default_graph()
        ops = dependents(scopes)
        for op in ops:
            _check_can_be_copied(op)
        self._prefix = f"{graph.unique_name(_SCOPE)}/"
        self._copied = {op.name for op in ops}
        copier = NodeCopier(self._copied, lambda name: self._prefix + name)
        for op in ops:
            copier.add(op.node_def)
        add_to_graph(copier.graph_def)
        self._graph = graph
        for op, scope in scopes.items():
            mark_for_compilation(graph.get_operation_by_name(self._prefix + op.name), scope)

    def in_place_of(self, element: GraphElement) -> GraphElement:
        """Return the copy of a tensor or operation in the compiled step, or itself if there is none."""
        op = element if isinstance(element, tf.Operation) else element.op
        if op.name not in self._copied:
            return element
        return self._graph.as_graph_element(self._prefix + element.name)


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
        return make_callable(
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


class Autotuner:
    """Runs plans, and finds the fastest way to run them.

    Args:
        executor: ``"pool"`` or ``"caller"`` fixes the executor; ``"auto"`` measures.
        compiled: a compiled copy of the step, if any. It is decided first, on one executor, since XLA compiles again
            for another thread.

    Attributes:
        is_compiled: the first decision; None until it is made.
        chosen: the second one, for each kind of plan; empty until it is made.

    Raises:
        ConfigError: ``executor`` is another value.
    """

    def __init__(self, executor: str, compiled: CompiledCopy | None = None) -> None:
        self._executor = check_choice(self, "executor", executor, EXECUTORS)
        self._copy = compiled
        self.is_compiled: bool | None = False if compiled is None else None
        self.chosen: dict[type, Way] = {}
        self._in_copy: WeakKeyDictionary[FetchPlan, FetchPlan] = WeakKeyDictionary()
        self._trials: dict[Any, Trial] = {}

    def run(self, plan: Any, *args: Any, num_steps: int = 1) -> Any:
        """Run a plan with its arguments once and return its result.

        Args:
            plan: a `FetchPlan`, or a `LoopPlan` if there is no compiled copy.
            *args: for its `run`.
            num_steps: the number of steps of the run.
        """
        way = self.chosen.get(type(plan))
        if way is not None:
            used = self._compiled(plan) if self.is_compiled else plan
            if used.way is not way:
                used.use(way)
            return used.run(*args)
        if self.is_compiled is None:
            compiled = self._compiled(plan)
            trial = self._trial(plan, [False] if compiled is plan else [False, True], mean, math.inf)
            used = compiled if trial is not None and trial.way else plan
            way = used.ways(self._executor)[0]
        else:
            used = self._compiled(plan) if self.is_compiled else plan
            ways = used.ways(self._executor)
            trial = self._trial(used, ways, median, MAX_STEP_SECS)
            way = ways[0] if trial is None else trial.way
            if len(ways) == 1:
                self.chosen[type(plan)] = way
        if used.way != way:
            used.use(way)
        if trial is None:
            return used.run(*args)
        start = time.perf_counter()
        values = used.run(*args)
        trial.note((time.perf_counter() - start) / num_steps, num_steps)
        if trial.has_ended:
            self._settle(trial, type(plan))
        return values

    def _compiled(self, plan: FetchPlan) -> FetchPlan:
        if self._copy is None:
            return plan
        if plan not in self._in_copy:
            self._in_copy[plan] = plan.with_others(self._copy.in_place_of)
        return self._in_copy[plan]

    def _trial(
        self, plan: Any, ways: Sequence[Any], of_block: Callable[[list[float]], float], max_secs: float
    ) -> "Trial | None":
        """Return the trial of a plan; None for a single way, or if enough others are timed."""
        if len(ways) > 1 and plan not in self._trials and len(self._trials) < MAX_TRIALS:
            self._trials[plan] = Trial(ways, of_block, max_secs)
        return self._trials.get(plan)

    def _settle(self, trial: "Trial", kind: Any) -> None:
        self._trials.clear()
        times = trial.medians()
        way = min(times, key=lambda each: times[each])
        if self.is_compiled is None:
            self.is_compiled = way
            words, secs = ("compiled by XLA" if way else "uncompiled"), [f"{each * 1e3:.3g}" for each in times.values()]
            logger.info(f"Steps run {words}: {secs[0]} ms a step uncompiled, {secs[1]} ms compiled.")
            return
        self.chosen[kind] = way
        if len(times) == 1:
            reason = f"a step of {times[way] * 1e3:.1f} ms is too long to gain from other ways"
        else:
            told = [(f"{secs * 1e6:.0f}", _words(each, is_short=True, kind=kind)) for each, secs in times.items()]
            told[0] = (f"{told[0][0]} us a step", told[0][1])
            reason = ", ".join(" ".join(each) for each in told)
        logger.info(f"Steps run {_words(way, is_short=False, kind=kind)}: {reason}.")


class Trial:
    """Times the ways of one plan.

    Args:
        ways: the ways; the first is kept if no other is faster.
        of_block: summary of a block's steps: the mean, where rare slow steps count, such as compiling for new shapes,
            or the median.
        max_secs: a longer step of the first way ends the trial.

    Attributes:
        way: the way of the next run.
        has_ended: whether there is a result.
    """

    def __init__(self, ways: Sequence[Any], of_block: Callable[[list[float]], float], max_secs: float) -> None:
        self._of_block = of_block
        self._max_secs = max_secs
        self._in_block: list[float] = []
        self._blocks: dict[Any, list[float]] = {way: [] for way in ways}
        self.way = ways[0]
        self.has_ended = False

    def note(self, step_secs: float, num_steps: int) -> None:
        """Record the time of each step of a run."""
        self._in_block += [step_secs] * min(num_steps, BLOCK_STEPS)
        if len(self._in_block) < BLOCK_STEPS:
            return
        blocks = self._blocks[self.way]
        blocks.append(self._of_block(self._in_block))
        self._in_block = []
        if len(blocks) == 1:
            return
        fewest = min(self._blocks, key=lambda way: len(self._blocks[way]))
        is_too_long = not self._blocks[fewest] and len(blocks) == 2 and blocks[-1] > self._max_secs
        if is_too_long:
            self._blocks = {self.way: blocks}
        self.has_ended = is_too_long or len(self._blocks[fewest]) > NUM_BLOCKS
        self.way = fewest

    def medians(self) -> dict[Any, float]:
        """Return the seconds of a step in each way that was fully timed."""
        return {way: median(blocks[1:]) for way, blocks in self._blocks.items()}


def _words(way: Way, *, is_short: bool, kind: Any) -> str:
    pool = "in the pool" if is_short else "in the thread pool"
    thread = "in the calling thread" if way.in_caller_thread else pool
    if not kind.makes_several_steps:
        return thread
    return f"{'in a loop of the graph' if way.in_loop else 'one by one'} {thread}"


def _check_can_be_copied(op: tf.Operation) -> None:
    if op.type in op_kinds.LOOP_PARTS:
        raise ConfigError(f"{op.name} ({op.type}) is a part of a loop of TensorFlow 1")
    if has_own_state(op):
        raise ConfigError(f"{op.name} ({op.type}) keeps something from one step to the next that a copy would lack")


def has_own_state(op: tf.Operation) -> bool:
    """Tell whether an operation has state between steps that a copy of it would lack."""
    return (
        bool(op.op_def.is_stateful) and not any(map(is_handle, op.inputs)) and op.type not in op_kinds.SHARED_BY_COPIES
    )
