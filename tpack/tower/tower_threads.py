"""Call a function in K towers that can meet in the middle.

Without merge calls, one thread builds one tower after the other. When the first tower calls `TowerContext.merge_call`,
each other one is started in a `Coroutine` and runs until it makes the same call; then the call's function runs, and the
first tower continues to the next call. So there is one fixed order, and the towers' variables, names and collections
are those of towers that never meet.

A generator can only be left by its own ``yield``. Model code is left inside a layer inside the tower function, so it
needs a stack of its own: a thread, which never runs in parallel. It runs while `resume` waits for it, and waits while
the caller of `resume` runs.
"""

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BuildState, swap_graph_state
from tpack.compat.private_names import SESSION_THREADS, check_names, missing_names
from tpack.errors import ConfigError, TowerMismatchError
from tpack.tower.context import TowerContext, current_frame, entered
from tpack.tower.keras_names import keep_keras_policy
from tpack.tower.merge_call import MergeCall, Merged, merge, part_of_tower

T = TypeVar("T")


def call_in_towers(contexts: Sequence[TowerContext], func: Callable[[], T]) -> list[T]:
    """Call a function once in each of K towers, which may meet by `TowerContext.merge_call`; return the K results.

    Args:
        contexts: the K towers, in the order of their indices; none was entered before.
        func: builds one tower.

    Raises:
        ConfigError: These are not all the towers of the group.
        TowerMismatchError: The towers meet different numbers of times, or in different functions.
        BaseException: An error of the function in any tower, with its traceback there. The other towers are ended
            first: their open blocks are left by a `CoroutineExit`.
    """
    if not contexts or any((c.index, c.total) != (k, len(contexts)) for k, c in enumerate(contexts)):
        raise ConfigError(f"got contexts={list(contexts)!r}: expected all towers in the order of their indices")
    return _Rendezvous(contexts, func).run()


# Tower 0 is built by the calling thread, in which all control stays. Towers 1 to K - 1 are built by it as well if tower
# 0 never meets; else each has a coroutine. One of them moves at a time:
#
#                enter             return
#     tower 0  --------> building --------> built, and towers 1 to K - 1 are resumed once more, to their ends
#             merge_call |      ^ its part of the result
#                        v      |
#                        meeting            resumes towers 1 to K - 1 in turn, then calls the function outside of towers
#
#                resume            return
#     tower k  --------> building --------> built
#             merge_call |      ^ resume with its part of the result
#                        v      |
#                        waiting --------> left by `CoroutineExit`, when any tower or the function has raised
#                                  close


class _Rendezvous:
    """K towers while they are built."""

    def __init__(self, contexts: Sequence[TowerContext], func: Callable[[], Any]) -> None:
        self._contexts = list(contexts)
        self._func = func
        self._graph = tf.get_default_graph()
        self._session = tf.get_default_session()
        # What the towers are entered in, whichever thread builds them.
        self._frame = replace(current_frame(), meet=self._meet)
        self._scopes = None if missing_names(SESSION_THREADS) else BuildState(self._graph)
        self._variables = contextvars.copy_context()
        self._install_keras_policy = keep_keras_policy()
        self._state_around = swap_graph_state(self._graph)
        self._states = [self._state_around] * len(self._contexts)
        self._coroutines: dict[int, Coroutine] = {}
        self._num_meetings = 0
        self._merged: Merged = None
        self._error: BaseException | None = None

    def run(self) -> list[Any]:
        """Build all towers; return the results of the function."""
        try:
            with entered(self._frame):
                first = self._build_first()
                return [first, *(self._finish(index) for index in range(1, len(self._contexts)))]
        finally:
            self._close()

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
        if not self._coroutines:
            with self._contexts[index]:
                return self._func()
        result = self._resume(index)
        if not self._coroutines[index].is_over:
            raise _unequal(f"tower 0 ended after {self._num_meetings} call(s)", f"tower {index} makes one more", result)
        return result

    def _meet(self, index: int, call: MergeCall) -> Merged:
        """Pass on the part of tower ``index``; return its part of the result."""
        if index in self._coroutines:
            return self._coroutines[index].pause(call)
        if index > 0:
            raise _unequal("tower 0 ended without a call", f"tower {index} makes one", call)
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
        check_names(SESSION_THREADS)
        if not self._coroutines:
            for index, context in list(enumerate(self._contexts))[1:]:
                build, name = partial(self._build, context), f"tpack-{context.name or index}"
                self._coroutines[index] = Coroutine(build, name, self._variables.copy())

    def _build(self, context: TowerContext) -> Any:
        with self._graph.as_default(), ExitStack() as scopes:
            if self._session is not None:
                scopes.enter_context(self._session.as_default())
            if self._scopes is not None:
                self._scopes.install()
            self._install_keras_policy()
            scopes.enter_context(entered(self._frame))
            scopes.enter_context(context)
            return self._func()

    def _merge(self, call: MergeCall) -> Merged:
        main = self._contexts[0]
        with self._first_paused(), ExitStack() as shown:
            shown.enter_context(main.collections.shown())
            calls = [call]
            for index in self._coroutines:
                calls.append(self._advance(index, call))
                shown.enter_context(self._contexts[index].collections.shown())
            self._num_meetings += 1
            with main.left():
                return merge(calls)

    def _advance(self, index: int, call: MergeCall) -> MergeCall:
        """Continue tower ``index`` to its next merge call and return its part."""
        try:
            brought = self._resume(index)
        except BaseException as error:
            # The first tower is ended like the others, so that its code does not take this for an error of its own.
            self._error = error
            raise CoroutineExit from None
        if self._coroutines[index].is_over:
            raise _unequal(f"tower {index} ended after {self._num_meetings} call(s)", "tower 0 makes one more", call)
        return brought

    def _resume(self, index: int) -> Any:
        part = part_of_tower(self._merged, index)
        with self._resumed(index):
            return self._coroutines[index].resume(part)

    @contextmanager
    def _first_paused(self) -> Iterator[None]:
        collections = self._contexts[0].collections
        collections.pause()
        state = swap_graph_state(self._graph, self._state_around)
        try:
            yield
        finally:
            swap_graph_state(self._graph, state)
            collections.resume()

    @contextmanager
    def _resumed(self, index: int) -> Iterator[None]:
        """Restore the open blocks and collections of tower ``index`` for a block in which its coroutine runs."""
        collections = self._contexts[index].collections
        if collections.is_open:
            collections.resume()
        state = swap_graph_state(self._graph, self._states[index])
        try:
            yield
        finally:
            self._states[index] = swap_graph_state(self._graph, state)
            if collections.is_open:
                collections.pause()

    def _close(self) -> None:
        """End all coroutines that have not ended."""
        for index, coroutine in self._coroutines.items():
            if not coroutine.is_over:
                with self._resumed(index):
                    coroutine.close()


def _unequal(ended: str, other: str, call: MergeCall) -> TowerMismatchError:
    return TowerMismatchError(f"towers call merge_call different numbers of times: {ended}, {other}, with {call}")


class CoroutineExit(BaseException):
    """Raised by `Coroutine.pause` in a coroutine that is being closed; like ``GeneratorExit``, it is not an error."""


class Coroutine:
    """A call of a function in a thread of its own.

    Args:
        func: takes no arguments; may call `pause`.
        name: the name of the thread.
        variables: the context variables of the call, by default a copy of the current ones.

    Example:
        def func():
            answer = coroutine.pause("question")

        coroutine = Coroutine(func, "asking")
        question = coroutine.resume()
        coroutine.resume("answer")
    """

    def __init__(self, func: Callable[[], Any], name: str, variables: contextvars.Context | None = None) -> None:
        self._func = func
        self._variables = contextvars.copy_context() if variables is None else variables
        # A daemon, so that an interpreter that ends in the middle of a call does not wait for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._may_go_on = threading.Semaphore(0)
        self._stands_still = threading.Semaphore(0)
        self._is_running = False
        self._is_closing = False
        self._is_over = False
        self._parcel: Any = None
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether the function returned or raised."""
        return self._is_over

    def resume(self, value: Any = None) -> Any:
        """Run the function until it pauses or ends; return the argument of `pause`, or the function's result.

        Args:
            value: the result of the `pause` in which it waits.

        Raises:
            BaseException: An error of the function, with its traceback there. An exception that interrupts the wait,
                such as ``KeyboardInterrupt``, closes the coroutine, which ends the function where it next pauses.
        """
        self._parcel = value
        if self._thread.ident is None:
            self._thread.start()
        self._may_go_on.release()
        self._is_running = True
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        error, self._error = self._error, None
        if error is not None:
            raise error
        value, self._parcel = self._parcel, None
        return value

    def pause(self, value: Any = None) -> Any:
        """Return ``value`` to the caller of `resume`, and wait for the value of the next one; called by the function.

        Raises:
            CoroutineExit: The coroutine is being closed.
        """
        if not self._is_closing:
            self._parcel = value
            self._stands_still.release()
            self._may_go_on.acquire()
        if self._is_closing:
            raise CoroutineExit
        value, self._parcel = self._parcel, None
        return value

    def close(self) -> None:
        """End the function, by `CoroutineExit` where it pauses, and its thread, unless they have ended.

        An error of the function on its way out is lost: another one closes it.
        """
        if self._is_running:
            # The wait of `resume` was interrupted: the function has not paused yet.
            self._wait()
        if self._is_over or self._thread.ident is None:
            return
        self._is_closing = True
        self._may_go_on.release()
        self._is_running = True
        self._wait()
        self._error = None

    def _wait(self) -> None:
        self._stands_still.acquire()
        self._is_running = False
        if self._is_over:
            self._thread.join()

    def _run(self) -> None:
        self._may_go_on.acquire()
        try:
            self._parcel = self._variables.run(self._func)
        except CoroutineExit:
            self._parcel = None
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._stands_still.release()
