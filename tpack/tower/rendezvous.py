"""Call a function in K towers that can meet in the middle.

Towers are built one after the other, by one thread, as long as they do not need each other. When the first tower calls
`TowerContext.merge_call`, each other one is started in a `Coroutine` and goes on until it makes the same call; then the
call's function runs, and the first tower goes on to the next. So there is one order in which things are built, always
the same, and the towers' variables, names and collections are those that they have when nobody meets.
"""

import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import BuildState, swap_graph_state
from tpack.errors import ConfigError, TowerMismatchError
from tpack.tower.context import TowerContext
from tpack.tower.coroutine import Coroutine, CoroutineExit
from tpack.tower.keras_names import keep_keras_policy
from tpack.tower.merging import MergeCall, merge, part_of_tower


def call_in_towers(contexts: Sequence[TowerContext], func: Callable[[], Any]) -> list[Any]:
    """Call a function once in each of K towers, which may meet by `TowerContext.merge_call`.

    Args:
        contexts: the K towers, in the order of their indices; none was entered before.
        func: builds one tower.

    Returns:
        What the function returned in each tower.

    Raises:
        ConfigError: These are not all the towers that each of them knows of.
        TowerMismatchError: The towers meet a different number of times, or for different things.
        BaseException: What the function raises in any tower, with the traceback that it has there. The other towers are
            ended first: blocks that are open in them are left by a `CoroutineExit`.
    """
    if not contexts or any((c.index, c.total) != (k, len(contexts)) for k, c in enumerate(contexts)):
        raise ConfigError(f"wanted all towers in the order of their indices, got {list(contexts)!r}")
    return _Towers(contexts, func).run()


class _Towers:
    """K towers while they are built. The first is built by the calling thread, in which all control stays."""

    def __init__(self, contexts: Sequence[TowerContext], func: Callable[[], Any]) -> None:
        self._contexts = list(contexts)
        self._func = func
        self._graph = tf.get_default_graph()
        self._session = tf.get_default_session()
        self._scopes = BuildState(self._graph)
        self._variables = contextvars.copy_context()
        self._install_keras_policy = keep_keras_policy()
        self._state_around = swap_graph_state(self._graph)
        self._states = [self._state_around] * len(self._contexts)
        self._strands: dict[int, Coroutine] = {}
        self._num_meetings = 0
        self._merged: Any = None
        self._error: BaseException | None = None

    def run(self) -> list[Any]:
        for context in self._contexts:
            context.meet = self._meet
        try:
            first = self._build_first()
            return [first, *(self._finish(index) for index in range(1, len(self._contexts)))]
        finally:
            self._close()
            for context in self._contexts:
                context.meet = None

    def _build_first(self) -> Any:
        output = None
        try:
            with self._contexts[0]:
                output = self._func()
        except CoroutineExit:
            if self._error is None:
                raise
        # Here and not where it is caught, so that it keeps the context in which it was raised.
        if self._error is not None:
            raise self._error
        return output

    def _finish(self, index: int) -> Any:
        if not self._strands:
            with self._contexts[index]:
                return self._func()
        result = self._resume(index)
        if not self._strands[index].is_over:
            raise TowerMismatchError(
                f"towers must meet equally often: tower 0 ended after {self._num_meetings} call(s) of merge_call, "
                f"tower {index} makes one more, with {result}"
            )
        return result

    def _meet(self, index: int, call: MergeCall) -> Any:
        """Be called by tower ``index`` with its part; return its part of the result."""
        if index in self._strands:
            return self._strands[index].pause(call)
        if index > 0:
            raise TowerMismatchError(
                f"towers must meet equally often: tower 0 ended without a call of merge_call, tower {index} makes one, "
                f"with {call}"
            )
        if self._error is not None:
            raise CoroutineExit
        self._start()
        try:
            self._merged = self._merge(call)
        except BaseException:
            self._close()
            raise
        return part_of_tower(self._merged, 0)

    def _start(self) -> None:
        if not self._strands:
            for index, context in list(enumerate(self._contexts))[1:]:
                self._strands[index] = Coroutine(
                    self._building(context), f"tpack-{context.name or index}", self._variables.copy()
                )

    def _building(self, context: TowerContext) -> Callable[[], Any]:
        def build() -> Any:
            with self._graph.as_default(), ExitStack() as scopes:
                if self._session is not None:
                    scopes.enter_context(self._session.as_default())
                self._scopes.install()
                self._install_keras_policy()
                scopes.enter_context(context)
                return self._func()

        return build

    def _merge(self, call: MergeCall) -> Any:
        main = self._contexts[0]
        with self._first_aside(), ExitStack() as shown:
            shown.enter_context(main.collections.shown())
            calls = [call]
            for index in self._strands:
                calls.append(self._advance(index, call))
                shown.enter_context(self._contexts[index].collections.shown())
            self._num_meetings += 1
            with main.left():
                return merge(calls)

    def _advance(self, index: int, call: MergeCall) -> MergeCall:
        """Let tower ``index`` go on to its next meeting and return what it brings."""
        try:
            brought = self._resume(index)
        except BaseException as error:
            # The first tower is ended like the others, so that its code does not take this for an error of its own.
            self._error = error
            raise CoroutineExit from None
        if self._strands[index].is_over:
            raise TowerMismatchError(
                f"towers must meet equally often: tower {index} ended after {self._num_meetings} call(s) of "
                f"merge_call, tower 0 makes one more, with {call}"
            )
        return brought

    def _resume(self, index: int) -> Any:
        part = part_of_tower(self._merged, index)
        with self._brought_back(index):
            return self._strands[index].resume(part)

    @contextmanager
    def _first_aside(self) -> Iterator[None]:
        collections = self._contexts[0].collections
        collections.put_aside()
        state = swap_graph_state(self._graph, self._state_around)
        try:
            yield
        finally:
            swap_graph_state(self._graph, state)
            collections.bring_back()

    @contextmanager
    def _brought_back(self, index: int) -> Iterator[None]:
        """Bring back what tower ``index`` had open and collected, for a block in which its coroutine runs."""
        collections = self._contexts[index].collections
        if collections.is_open:
            collections.bring_back()
        state = swap_graph_state(self._graph, self._states[index])
        try:
            yield
        finally:
            self._states[index] = swap_graph_state(self._graph, state)
            if collections.is_open:
                collections.put_aside()

    def _close(self) -> None:
        """End all coroutines that have not ended."""
        for index, strand in self._strands.items():
            if not strand.is_over:
                with self._brought_back(index):
                    strand.close()
