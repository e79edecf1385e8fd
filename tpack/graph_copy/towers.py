"""Build towers 2 to K-1 as copies of tower 1.

Most operations of a tower are the same as in the one before. A function builds the first two towers; these show how
towers differ, and the others are copied in a quarter of the time, with the names, devices, variables, seeds and
collections that they would have if they had been built.

Towers are copied only where the result is sure to be the same, see `replicate_by_copy`. Otherwise they are built, and the
log has the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_copy.capture import NotReplicable, Region, RegionRecorder
from tpack.graph_copy.copy import Copier
from tpack.graph_copy.diff import compare
from tpack.graph_copy.side_effects import PythonState
from tpack.tower.context import TowerContext, get_current_tower_context, is_in_control_flow
from tpack.tower.tower_threads import call_in_towers
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_choice

T = TypeVar("T")

TowerBuilding: TypeAlias = Literal["auto", "copy", "build"]
"""How the third of several towers and all that follow come about: copied where that is sure to be the same, copied or
refused, or built."""


def check_tower_building(owner: object, tower_building: TowerBuilding) -> TowerBuilding:
    """Return a `TowerBuilding`.

    Raises:
        ConfigError: It is another value.
    """
    choice: TowerBuilding = check_choice(owner, "tower_building", tower_building, get_args(TowerBuilding))
    return choice


@check_arguments
def replicate_by_copy(func: Callable[..., Any], *args: Any) -> Any:
    """Call a function that builds the same in each tower, or copy what it has built in tower 1.

    Trainers call the model in this way, strategies and ``replicate_model_fn`` their functions. A call is copied if the
    function reads nothing of its tower that differs after the first one, makes no merge call, makes no operation with a
    state of its own, such as a queue or a Python function, and has no side effects in Python but those that can be
    repeated; and if tower 1 is like tower 0, apart from what the first tower alone builds. If it calls this function
    again, only the inner call is copied.

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
    """Call a function in each of K towers, or copy what it has built in tower 1 into those that follow.

    Args:
        contexts: the K towers, as for `call_in_towers`.
        func: builds one tower.
        tower_building: how towers 2 to K-1 are built: ``"auto"`` copies tower 1 where the result is sure to be the
            same, see `replicate_by_copy`; ``"copy"`` is an error where it is not; ``"build"`` calls the function for
            each.
        copies_are_set: whether variables of copies get their first values elsewhere, so that operations for these are
            left out.

    Returns:
        The result of the function in each tower.

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
    """Call a function that updates towers once for each of K, or copy what it has built for tower 1.

    Each call is in its tower again (see `TowerContext.revisited`), on its device, in its name scope, and recorded by
    it.

    Args:
        contexts: the K towers, which were built and left.
        func: takes the arguments of one tower.
        tower_args: K structures of tensors and variables, of one tower each.
        tower_building: as for `call_in_replicated_towers`.
        copies_are_set: as for `call_in_replicated_towers`.

    Returns:
        The result of the function for each tower.

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
        self._building = building
        self._what = what
        self._copies_are_set = copies_are_set
        # Calls are told by their numbers, those inside of others by the numbers of these before.
        self._parts: dict[tuple[int, ...], _Part] = {}
        self._open: list[tuple[int, ...]] = [()] * len(contexts)
        self._num_calls: list[Counter[tuple[int, ...]]] = [Counter() for _ in contexts]
        self._contexts = list(contexts) if building != "build" and len(contexts) > 2 else []
        for context in self._contexts:
            context.copying = self

    def forget(self) -> None:
        """Let the towers be as any others, and what they were copied from be forgotten."""
        for context in self._contexts:
            context.copying = None

    def call(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        """See `replicate_by_copy`."""
        index, around = tower.index, self._open[tower.index]
        call = (*around, self._num_calls[index][around])
        self._num_calls[index][around] += 1
        if index == 0:
            self._parts[call] = _Part(self._building, self._what, self._copies_are_set)
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


class _Part:
    """What one call of `replicate_by_copy` builds in each tower."""

    def __init__(self, building: TowerBuilding, what: str, copies_are_set: bool) -> None:
        self._building = building
        self._what = what
        self._copies_are_set = copies_are_set
        self._first: Region | None = None
        self._copier: Copier | None = None
        self._state: PythonState | None = None
        self._is_refused = False

    def leave_to_inner(self) -> None:
        """Copy nothing, since a call inside of this one does."""
        self._is_refused = True

    def call(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        # The second tower is not recorded where it meets the first one, which is not finished then.
        if tower.index == 0 or (tower.index == 1 and self._first is not None and not self._is_refused):
            return self._recorded(tower, func, args)
        if self._copier is None or not self._copier.takes(tower, args):
            return func(*args)
        made = self._copier.copy_to(tower, args)
        if self._state is not None:
            self._state.replay(made.of)
        made.repeat()
        return made.of(self._copier.output)

    def _recorded(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        asked_before, tower.asked = tower.asked, set()
        with self._refusing():
            if tower.index == 1:
                self._state = PythonState(func)
        recorder = RegionRecorder(tower)
        output = func(*args)
        with self._refusing():
            if not self._is_refused:
                self._learn(tower, recorder, args, output)
        tower.asked |= asked_before
        return output

    def _learn(self, tower: TowerContext, recorder: RegionRecorder, args: Any, output: Any) -> None:
        if is_in_control_flow():
            raise NotReplicable("it is built in a loop, condition or function")
        if tower.asked:
            raise NotReplicable(f"it uses what differs from tower to tower: {', '.join(sorted(tower.asked))}")
        region = recorder.finish(args, output)
        if tower.index == 0:
            self._first = region
            return
        first, self._first = self._first, None
        if first is not None and self._state is not None:
            self._state.note_changes(func for func, _ in region.repeated)
            self._copier = Copier(region, compare(first, region), not self._copies_are_set)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Build the towers if the block finds that they are not alike."""
        try:
            yield
        except NotReplicable as error:
            reason = error
        else:
            return
        self._is_refused, self._first, self._copier = True, None, None
        message = f"{self._what} cannot be copied from tower to tower: {reason}"
        if self._building == "copy":
            raise GraphBuildError(f"{message}. With tower_building='auto' such towers are built")
        logger.info(f"Each tower is built by itself, since {message}.")
