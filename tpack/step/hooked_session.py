"""A session whose runs also fetch for callbacks, at the cost of a bare callable.

The fetches of callbacks are added to those of each run. One callable is compiled for each distinct set of fetches. The
error of a dead input thread replaces TensorFlow's ("queue is closed"); errors of data that ended or failed are
explained.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataExhaustedError, InputError, StepTimeoutError, TpackError
from tpack.step.fetch_plan import (
    NO_VALUES,
    Autotuner,
    FetchPlan,
    RememberedStep,
    fetch_key,
    graph_element,
    is_composite,
    is_constant,
    timeout_alone,
)
from tpack.types import Fetches
from tpack.utils.lazy import LazyModule

if TYPE_CHECKING:
    from tpack.step.fetch_plan import CompiledCopy
    from tpack.step.loop_graph import LoopGraph

# Loaded for a run of several steps, and after a failure.
_loop_graph = LazyModule("tpack.step.loop_graph")
_op_traceback = LazyModule("tpack.step.op_traceback")
_Feeds = dict[int, tuple[tf.Tensor, Any]]

MAX_PLANS = 128
"""How many distinct sets of fetches are kept; a loop that makes new ones all the time drops the oldest."""


class StepCallback(Protocol):
    """Protocol of callbacks of a `HookedSession`: a `tpack.callbacks.base.Callback`, or a `HookAdapter`."""

    def implements(self, hook: str) -> bool:
        """Tell whether the method of this name, such as ``"before_run"``, does anything."""

    def bound(self, hook: str) -> Callable[..., Any]:
        """Return the function to call for the method of this name at each step."""

    def failure(self) -> BaseException | None:
        """Return the error that ended a thread or process of the callback, if any."""


class HookedSession:
    """Runs fetches in a session together with those of callbacks.

    Args:
        session: an open session.
        callbacks: in order, those with a ``before_run``, ``after_run`` or ``failure`` of their own.
        executor: ``"pool"``, ``"caller"`` or ``"auto"``, which measures both (see `tpack.step.fetch_plan`).
        compiled: a compiled copy of the step, if any, to be used where it is faster.

    Attributes:
        has_begun: whether a run has begun since this was set to False; callbacks before it do not count.

    Raises:
        ConfigError: ``executor`` is another value.
    """

    def __init__(
        self,
        session: tf.Session,
        callbacks: Sequence[StepCallback],
        *,
        executor: str = "pool",
        compiled: "CompiledCopy | None" = None,
    ) -> None:
        self._session = session
        self._callbacks = list(callbacks)
        asked = [callback for callback in callbacks if callback.implements("before_run")]
        self._asked = [callback.bound("before_run") for callback in asked]
        # Who is told, and which of the answers to `before_run` is theirs, if they gave one.
        position = {id(callback): index for index, callback in enumerate(asked)}
        self._told = [(cb.bound("after_run"), position.get(id(cb))) for cb in callbacks if cb.implements("after_run")]
        self._tuner = Autotuner(executor, compiled)
        self._plans: dict[Hashable, FetchPlan] = {}
        self._steps: dict[tuple[int, ...], RememberedStep] = {}
        self._context: tf.train.SessionRunContext | None = None
        self._stop_requested = False
        self.has_begun = False

    @property
    def session(self) -> tf.Session:
        """The session itself."""
        return self._session

    @property
    def graph(self) -> tf.Graph:
        """The session's graph."""
        return self._session.graph

    def run(
        self,
        fetches: Fetches,
        feed_dict: Mapping[Any, Any] | None = None,
        options: tf.RunOptions | None = None,
        run_metadata: tf.RunMetadata | None = None,
    ) -> Any:
        """Run ``fetches`` and those of the callbacks, once; return the values of ``fetches``.

        Args:
            fetches: as for ``session.run``.
            feed_dict: values for tensors.
            options: ``tf.RunOptions``; with more than a timeout, the run goes through ``session.run``.
            run_metadata: filled in if it is not None.

        Raises:
            DataExhaustedError: The input ended.
            InputError: A ``tf.data`` pipeline failed.
            StepTimeoutError: The run took longer than the options, or a callback's, allow.
            ConfigError: A tensor is fed twice or with a wrong shape, or something cannot be fetched or fed.
        """
        context = self._run_context(fetches, feed_dict, options)
        requests = [before_run(context) for before_run in self._asked]
        is_bare = feed_dict is None and options is None and run_metadata is None
        # Most steps ask for the very objects that an earlier one asked for: then nothing is left to be looked at.
        key = (id(fetches), *map(id, requests))
        step = self._steps.get(key) if is_bare else None
        self.has_begun = True
        try:
            if step is not None:
                return self._tell_remembered(step, self._tuner.run(step.plan), context)
            wanted, feeds, options = self._merge(requests, feed_dict, options)
            if options is not None and run_metadata is None and not timeout_alone(options):
                run_metadata = tf.RunMetadata()
            everything = [fetches, *([] if item is None else item for item in wanted)]
            results = self._run(everything, feeds, options, run_metadata)
        except tf.errors.OpError as error:
            self._raise_cause(error, [options, *_options_of(requests)])
            self._raise_located(error, lambda more: self._run_again(fetches, requests, feed_dict, more))
            raise
        if is_bare and all(map(is_constant, (fetches, *requests))):
            plan = self._plan(everything, feeds, options)
            if plan is not None:
                self._remember(key, RememberedStep(plan, self._told, fetches, requests))
        self._tell(context, wanted, results, (options, run_metadata))
        return results[0]

    def _merge(
        self, requests: Sequence[Any], feed_dict: Mapping[Any, Any] | None, options: tf.RunOptions | None
    ) -> tuple[list[Any], _Feeds, tf.RunOptions | None]:
        """Return the fetches of each callback, and all feeds and options."""
        arguments = [request for request in requests if isinstance(request, tf.train.SessionRunArgs)]
        wanted = [request.fetches if isinstance(request, tf.train.SessionRunArgs) else request for request in requests]
        feeds = self._merge_feeds([feed_dict, *(item.feed_dict for item in arguments)])
        options = _merge_options([options, *_options_of(requests)])
        return wanted, feeds, options

    def run_several(self, fetches: Fetches, several: "LoopGraph", num_steps: int) -> int:
        """Make several steps in one run; callbacks are called before and after it, once.

        Args:
            fetches: the run of one step, for callbacks.
            several: the steps.
            num_steps: the number of steps.

        Returns:
            The number of steps that were made, less than ``num_steps`` only after a stop.

        Raises:
            DataExhaustedError: The input ended.
            InputError: A ``tf.data`` pipeline failed.
            ConfigError: A callback fetches a tensor that it did not announce, feeds, or sets options other than a
                trace.
        """
        context = self._run_context(fetches, None, None)
        requests = [before_run(context) for before_run in self._asked]
        key = (id(several), *map(id, requests))
        step = self._steps.get(key)
        self.has_begun = True
        try:
            if step is None:
                wanted, options = self._wanted_of_several(requests)
                plan = _loop_graph.LoopPlan(self._session, several, [[] if item is None else item for item in wanted])
                if options is not None:
                    run_metadata = tf.RunMetadata()
                    results = plan.run_traced(num_steps, options, run_metadata)
                    self._tell(context, wanted, results, (options, run_metadata))
                    return int(results[0])
                step = RememberedStep(plan, self._told, several, requests)
                if all(map(is_constant, requests)):
                    self._remember(key, step)
            return int(self._tell_remembered(step, self._tuner.run(step.plan, num_steps, num_steps=num_steps), context))
        except tf.errors.OpError as error:
            self._raise_cause(error, [])
            self._raise_located(error, None)
            raise

    def _wanted_of_several(self, requests: Sequence[Any]) -> tuple[list[Any], tf.RunOptions | None]:
        """Return the fetches of each callback, and the options of a traced run."""
        wanted, feeds, options = self._merge(requests, None, None)
        if feeds or (options is not None and options != tf.RunOptions(trace_level=options.trace_level)):
            raise ConfigError("a callback feeds or sets options in a run of several steps, which can only be traced")
        return wanted, options

    def _tell_remembered(self, step: RememberedStep, results: list[Any], context: tf.train.SessionRunContext) -> Any:
        """Pass the values of a remembered step to callbacks, and return those of the run's own fetches."""
        for after_run, position in step.told:
            value = NO_VALUES if position is None else tf.train.SessionRunValues(results[position], None, None)
            after_run(context, value)
        if context.stop_requested:
            self._stop_requested = True
        return results[0]

    def _remember(self, key: tuple[int, ...], step: RememberedStep) -> None:
        if len(self._steps) >= MAX_PLANS:
            self._steps.clear()
        self._steps[key] = step

    def should_stop(self) -> bool:
        """Whether a callback has asked for a stop, in whichever run."""
        return self._stop_requested

    def close(self) -> None:
        """Close the session."""
        self._steps.clear()
        self._plans.clear()
        self._session.close()

    def _run_context(
        self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None, options: tf.RunOptions | None
    ) -> tf.train.SessionRunContext:
        is_bare = not feed_dict and options is None
        if is_bare and self._context is not None and self._context.original_args.fetches is fetches:
            return self._context
        arguments = tf.train.SessionRunArgs(fetches, feed_dict=feed_dict or None, options=options)
        context = tf.train.SessionRunContext(arguments, self._session)
        if is_bare:
            self._context = context
        return context

    def _run(
        self, everything: list[Any], feeds: _Feeds, options: tf.RunOptions | None, run_metadata: tf.RunMetadata | None
    ) -> list[Any]:
        plan = self._plan(everything, feeds, options) if run_metadata is None else None
        if plan is None:
            feed_dict = dict(feeds.values())
            return self._session.run(everything, feed_dict=feed_dict, options=options, run_metadata=run_metadata)
        return self._tuner.run(plan, *(_as_feed(tensor, value) for tensor, value in feeds.values()))

    def _plan(self, everything: list[Any], feeds: _Feeds, options: tf.RunOptions | None) -> FetchPlan | None:
        """Return the plan for these fetches and feeds, or None if there are composite tensors among them."""
        timeout_in_ms = timeout_alone(options)
        key = (fetch_key(everything), timeout_in_ms, *feeds)
        plan = self._plans.get(key)
        if plan is None:
            fed = [tensor for tensor, _ in feeds.values()]
            if is_composite(everything) or is_composite(fed):
                return None
            if len(self._plans) >= MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            plan = self._plans[key] = self._new_plan(everything, fed, timeout_in_ms)
        return plan

    # Sessions of Estimators override it.
    def _new_plan(self, everything: list[Any], fed: list[tf.Tensor], timeout_in_ms: int) -> FetchPlan:
        return FetchPlan(self._session, everything, fed, timeout_in_ms=timeout_in_ms)

    def _tell(
        self,
        context: tf.train.SessionRunContext,
        wanted: list[Any],
        results: list[Any],
        run: tuple[tf.RunOptions | None, tf.RunMetadata | None],
    ) -> None:
        for after_run, position in self._told:
            value = None if position is None or wanted[position] is None else results[position + 1]
            after_run(context, tf.train.SessionRunValues(value, *run))
        self._stop_requested = self._stop_requested or context.stop_requested

    def _merge_feeds(self, feed_dicts: Sequence[Mapping[Any, Any] | None]) -> _Feeds:
        """Return {id(tensor): (tensor, value)} of the run's own feeds and those of callbacks."""
        feeds: _Feeds = {}
        for feed_dict in filter(None, feed_dicts):
            for name, value in feed_dict.items():
                tensor = name if is_composite(name) else graph_element(self._session.graph, name)
                if isinstance(tensor, tf.Operation):
                    raise ConfigError(f"{tensor.name!r} is an operation: only tensors can be fed")
                if id(tensor) in feeds:
                    raise ConfigError(f"{tensor!r} is fed twice in one run")
                feeds[id(tensor)] = (tensor, value)
        return feeds

    def _raise_cause(self, error: tf.errors.OpError, options: Sequence[tf.RunOptions | None]) -> None:
        """Raise the cause of a failed run: a callback's failure, the data or a short timeout."""
        for callback in self._callbacks:
            failure = callback.failure()
            if failure is not None:
                raise failure
        merged = _merge_options(options)
        explanation = explain_failure(error, self.graph, 0 if merged is None else merged.timeout_in_ms)
        if explanation is not None:
            raise explanation from error

    def _raise_located(self, error: tf.errors.OpError, again: Callable[[tf.RunOptions], object] | None) -> None:
        """Raise an error with the line of the program that it comes from, and of exhausted memory with a report."""
        located = _op_traceback.with_origin(error, self.graph)
        if isinstance(error, tf.errors.ResourceExhaustedError):
            # A session on a server may be one of several that wait for each other in a step.
            is_alone = not self._session.sess_str
            located = _op_traceback.with_allocations(located, self.graph, again if is_alone else None)
        if located is not error:
            raise located.with_traceback(error.__traceback__) from None

    def _run_again(
        self, fetches: Fetches, requests: Sequence[Any], feed_dict: Mapping[Any, Any] | None, options: tf.RunOptions
    ) -> None:
        wanted, feeds, _ = self._merge(requests, feed_dict, None)
        everything = [fetches, *(item for item in wanted if item is not None)]
        self._session.run(everything, feed_dict=dict(feeds.values()), options=options)


class HookAdapter:
    """A ``tf.train.SessionRunHook`` as a `StepCallback`; the owner of the session calls its other methods."""

    def __init__(self, hook: tf.train.SessionRunHook) -> None:
        self._hook = hook

    def implements(self, hook: str) -> bool:
        """Tell whether the hook does anything in its method of this name."""
        return getattr(type(self._hook), hook, None) is not getattr(tf.train.SessionRunHook, hook, None)

    def bound(self, hook: str) -> Callable[..., Any]:
        """Return the hook's method of this name."""
        method: Callable[..., Any] = getattr(self._hook, hook)
        return method

    def failure(self) -> BaseException | None:
        """Return None: hooks own no threads."""
        return None


def _options_of(requests: Sequence[Any]) -> list[tf.RunOptions | None]:
    return [request.options for request in requests if isinstance(request, tf.train.SessionRunArgs)]


def _merge_options(options: Sequence[tf.RunOptions | None]) -> tf.RunOptions | None:
    """Return new options that combine all given ones; None if there are none."""
    wanted = [item for item in options if item is not None]
    if not wanted:
        return None
    merged = tf.RunOptions()
    for item in wanted:
        merged.MergeFrom(item)
    # Merging keeps the last of several numbers. The most detailed trace and the longest time serve everybody.
    merged.trace_level = max(item.trace_level for item in wanted)
    merged.timeout_in_ms = max(item.timeout_in_ms for item in wanted)
    return merged


def _as_feed(tensor: tf.Tensor, value: object) -> np.ndarray:
    array = np.asarray(value, dtype=tensor.dtype.as_numpy_dtype)
    if not tensor.shape.is_compatible_with(array.shape):
        raise ConfigError(f"{tensor.name} got an array of shape {array.shape}: expected shape {tensor.shape}")
    return array


def explain_failure(error: tf.errors.OpError, graph: tf.Graph, timeout_in_ms: int = 0) -> TpackError | None:
    """Return the error to raise from that of a run, or None if TensorFlow's own is the best explanation.

    TensorFlow names the operation that gave up, which for data is never the cause. ``timeout_in_ms`` is the time limit
    of the run; 0 for none.
    """
    if isinstance(error, tf.errors.OutOfRangeError):
        return DataExhaustedError("a step found no more data; repeat the data, or train fewer steps")
    # An operation with a time limit of its own names itself.
    names = _op_traceback.operations_in(error.message)
    if timeout_in_ms and isinstance(error, tf.errors.DeadlineExceededError) and not names:
        hint = "the callback Watchdog finds what a step waits for"
        return StepTimeoutError(f"a run took longer than the {timeout_in_ms} ms that its options allow; {hint}")
    for name in names:
        if _is_next_element(graph, name):
            # The line before the operations: before that there may be tracebacks, of Python or of the graph.
            reason = error.message.partition("[[")[0].strip().splitlines()[-1].strip()
            return InputError(f"the dataset of {name} failed: {reason}")
    return None


def _is_next_element(graph: tf.Graph, name: str) -> bool:
    try:
        return bool(graph.get_operation_by_name(name).type == "IteratorGetNext")
    except (KeyError, ValueError):
        # Operations inside the functions of a dataset are not the graph's own.
        return False
