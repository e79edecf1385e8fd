"""Build towers 2 to K-1 as copies of tower 1.

Most operations of a tower are the same as in the one before. A function builds the first two towers; these show how
towers differ, and the others are copied in a quarter of the time, with the names, devices, variables, seeds and
collections that they would have if they had been built. Where the result might differ (see `replicate_by_copy`), towers
are built, and the reason is logged.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import tensorflow.compat.v1 as tf

from tpack.compat.private_names import COPIED_TOWERS, check_names, missing_names
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.tower.tower_threads import call_in_towers
from tpack.utils.lazy import LazyModule
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments, check_choice

T = TypeVar("T")

# Loaded for three towers and more.
_copy = LazyModule("tpack.graph_copy.copy")

TowerBuilding: TypeAlias = Literal["auto", "copy", "build"]
"""How the third of several towers and all that follow come about: copied where that is sure to be the same, copied or
refused, or built."""


def check_tower_building(owner: object, tower_building: TowerBuilding) -> TowerBuilding:
    """Return a `TowerBuilding`; raise a ConfigError for another value."""
    return check_choice(owner, "tower_building", tower_building, get_args(TowerBuilding))


@check_arguments
def replicate_by_copy(func: Callable[..., Any], *args: Any) -> Any:
    """Call a function that builds the same in each tower, or copy its operations in tower 1.

    Trainers call the model in this way, strategies and ``replicate_model_fn`` their functions. A call is copied if the
    function reads no property of its tower that differs after the first one, makes no merge call and no operation with
    a state of its own, such as a queue or a Python function, and has only repeatable side effects in Python; and if
    tower 1 is like tower 0, apart from operations of the first tower alone. If it calls this function again, only the
    inner call is copied.

    Args:
        func: the function.
        *args: its arguments: structures of tensors, which each tower has of its own.

    Returns:
        The result of the function.

    Raises:
        WrongTypeError: ``func`` cannot be called.
        GraphBuildError: Copies are required, and impossible.
        Exception: An error of the function.
    """
    tower = get_current_tower_context()
    copying = None if tower is None else tower.copying
    if tower is None or not isinstance(copying, TowerCopies):
        return func(*args)
    return copying.call(tower, func, args)


@check_arguments
def call_in_replicated_towers(
    contexts: Sequence[TowerContext],
    func: Callable[[], T],
    tower_building: TowerBuilding = "auto",
    *,
    copies_are_set: bool = False,
) -> list[T]:
    """Call a function in each of K towers, or copy its operations in tower 1 into later ones; return the K results.

    Args:
        contexts: the K towers, as for `call_in_towers`.
        func: builds one tower.
        tower_building: how towers 2 to K-1 are built: ``"auto"`` copies tower 1 where the result is sure to be the
            same; ``"copy"`` raises an error where it is not; ``"build"`` calls the function for each.
        copies_are_set: whether variables of copies get their initial values elsewhere, and need no operations for them.

    Raises:
        WrongTypeError: An argument has the wrong type.
        ConfigError: These are not all the towers of the group, or ``tower_building`` is another value.
        GraphBuildError: Copies are required, and impossible.
        Exception: An error of `call_in_towers`.
    """
    building = check_tower_building("call_in_replicated_towers", tower_building)
    copies = TowerCopies(contexts, building, copies_are_set=copies_are_set)
    try:
        return call_in_towers(contexts, partial(replicate_by_copy, func))
    finally:
        copies.forget()


@check_arguments
def update_in_towers(
    contexts: Sequence[TowerContext],
    func: Callable[..., T],
    tower_args: Sequence[Any],
    tower_building: TowerBuilding = "auto",
    *,
    copies_are_set: bool = False,
) -> list[T]:
    """Call a function that updates towers once for each of K, or copy its operations for tower 1; return the K results.

    Each call is in its tower again (see `TowerContext.revisited`), on its device, in its name scope, and recorded by
    it.

    Args:
        contexts: the K towers, which were built and left.
        func: takes the arguments of one tower.
        tower_args: K structures of tensors and variables, of one tower each.
        tower_building: as for `call_in_replicated_towers`.
        copies_are_set: as for `call_in_replicated_towers`.

    Raises:
        WrongTypeError: An argument has the wrong type.
        ConfigError: ``tower_building`` is another value.
        GraphBuildError: Copies are required, and impossible.
        Exception: An error of the function.
    """
    building = check_tower_building("update_in_towers", tower_building)
    copies = TowerCopies(contexts, building, what="what updates a tower", copies_are_set=copies_are_set)
    outputs = []
    try:
        for context, args in zip(contexts, tower_args, strict=True):
            with ExitStack() as scopes:
                scopes.enter_context(context.revisited())
                scopes.enter_context(tf.device(context.device))
                if context.name:
                    scopes.enter_context(tf.name_scope(f"{context.name}/"))
                scopes.enter_context(context.recorder.scope())
                outputs.append(replicate_by_copy(func, args))
    finally:
        copies.forget()
    return outputs


class TowerCopies:
    """The copies of K towers that are built together.

    Args:
        contexts: the towers.
        building: how they are built.
        what: the thing that is copied, for messages.
        copies_are_set: as for `call_in_replicated_towers`.
    """

    def __init__(
        self,
        contexts: Sequence[TowerContext],
        building: TowerBuilding,
        *,
        what: str = "the tower function",
        copies_are_set: bool = False,
    ) -> None:
        self._options = building == "copy", what, not copies_are_set
        # Calls are told by their numbers, those inside of others by the numbers of these before.
        self._parts: dict[tuple[int, ...], Any] = {}
        self._open: list[tuple[int, ...]] = [()] * len(contexts)
        self._num_calls: list[Counter[tuple[int, ...]]] = [Counter() for _ in contexts]
        is_wanted = building != "build" and len(contexts) > 2
        if is_wanted and building == "copy":
            check_names(COPIED_TOWERS)
        elif is_wanted and (missing := missing_names(COPIED_TOWERS)):
            log_once(f"Towers are built and not copied, since TensorFlow is without {', '.join(missing)}.")
            is_wanted = False
        self._contexts = list(contexts) if is_wanted else []
        for context in self._contexts:
            context.copying = self

    def forget(self) -> None:
        """Detach the towers from their copies."""
        for context in self._contexts:
            context.copying = None

    def call(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        """See `replicate_by_copy`."""
        index, around = tower.index, self._open[tower.index]
        call = (*around, self._num_calls[index][around])
        self._num_calls[index][around] += 1
        if index == 0:
            self._parts[call] = _copy.CopiedCall(*self._options)
            if around:
                self._parts[around].leave_to_inner()
        part = self._parts.get(call)
        if part is None:
            return func(*args)
        self._open[index] = call
        try:
            return part.call(tower, func, args)
        finally:
            self._open[index] = around
