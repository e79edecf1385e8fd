"""Remember which variables a tower creates, so that replicas are paired by record and not by name.

Towers run the same function, so the n-th variable that one tower creates is the copy of the n-th that the main tower
creates. Names only serve as a check: they are never taken apart to find a partner.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import TowerMismatchError
from tpack.tower.variable_places import VariablePlaces


class VariableRecorder:
    """Records the variables created inside its scopes, and always makes them resource variables.

    Args:
        owner: who creates them, for messages.
        as_copies: put the variables into LOCAL_VARIABLES in place of GLOBAL_VARIABLES. A copy is not saved: a
            checkpoint holds the main tower's variables and loads into any number of towers.
        only_local: create no variable that belongs into GLOBAL_VARIABLES; take the one that the tower whose variables
            these are made in the same place.
        unnamed_scope: a name scope that is left out of the variables' names.
        takes_from: create no variable at all; take the one that the tower of this recorder made in the same place.
    """

    def __init__(
        self,
        owner: str,
        *,
        as_copies: bool = False,
        only_local: bool = False,
        unnamed_scope: str = "",
        takes_from: "VariableRecorder | None" = None,
    ) -> None:
        self.owner = owner
        self._unnamed_scope = unnamed_scope
        self._takes_from = takes_from
        self.variables: list[Any] = []
        self._as_copies = as_copies
        self._only_local = only_local
        self._paused = False
        self._places = VariablePlaces()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Record in this block; may be entered several times."""
        self._places.begin()
        with tf.variable_creator_scope(self._create):
            yield

    @property
    def is_paused(self) -> bool:
        """Whether a variable made now is shared by all towers."""
        return self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in this block: what it creates is shared by all towers."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def _create(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if self._takes_from is not None and not self._paused:
            return self._take(kwargs)
        if self._only_local and not self._paused and _will_be_global(kwargs):
            return self._places.take(kwargs.get("name"), kwargs.get("initial_value"), self.owner)
        place = self._places.place(kwargs.get("name"))
        # Keras variables come without this argument and are resource variables anyway.
        if "use_resource" in kwargs:
            kwargs["use_resource"] = True
        with _without_scope(self._unnamed_scope):
            variable = next_creator(**kwargs)
        if self._paused:
            return variable
        self.variables.append(variable)
        self._places.note(place, variable)
        if self._as_copies:
            _move_to_local(variable)
        return variable

    def _take(self, kwargs: dict[str, Any]) -> Any:
        main = [] if self._takes_from is None else [self._takes_from._places]
        variable = self._places.take(kwargs.get("name"), kwargs.get("initial_value"), self.owner, made_by=main)
        self.variables.append(variable)
        return variable


@contextmanager
def _without_scope(unnamed: str) -> Iterator[None]:
    """Leave a name scope, and stay in those that were opened inside it."""
    current = tf.get_default_graph().get_name_scope()
    if not unnamed or not f"{current}/".startswith(f"{unnamed}/"):
        yield
        return
    inner = current[len(unnamed) + 1 :]
    with tf.name_scope(f"{inner}/" if inner else None):
        yield


def pair_variables(main: VariableRecorder, copy: VariableRecorder) -> list[tuple[Any, Any]]:
    """Pair each variable of the main tower with its copy in another tower.

    Args:
        main: what the main tower created.
        copy: what the other tower created.

    Returns:
        (main, copy) pairs in the order of creation.

    Raises:
        TowerMismatchError: One tower created more variables than the other, or a pair differs in shape or dtype.
    """
    if len(main.variables) != len(copy.variables):
        more, fewer = sorted((main, copy), key=lambda recorder: len(recorder.variables), reverse=True)
        raise TowerMismatchError(
            f"{more.owner} created {len(more.variables)} variables and {fewer.owner} created {len(fewer.variables)}: "
            f"the tower function must create the same ones in each tower. Only in {more.owner}: "
            f"{', '.join(_likely_extra(more, fewer)[:10])}"
        )
    for a, b in zip(main.variables, copy.variables, strict=True):
        # Shapes are compared as text: one of unknown rank has no list, and unknown dimensions are never equal.
        if str(a.shape) != str(b.shape) or a.dtype.base_dtype != b.dtype.base_dtype:
            raise TowerMismatchError(
                f"{main.owner} created {a.op.name} with shape {a.shape} and dtype {a.dtype.base_dtype.name} where "
                f"{copy.owner} created {b.op.name} with shape {b.shape} and dtype {b.dtype.base_dtype.name}"
            )
    return list(zip(main.variables, copy.variables, strict=True))


def _likely_extra(more: VariableRecorder, fewer: VariableRecorder) -> list[str]:
    """Return names that have no like in the other tower, to help who reads the message; the last ones if all have."""
    others = [f"/{variable.op.name}" for variable in fewer.variables]
    names = [variable.op.name for variable in more.variables]
    extra = [n for n in names if not any(o.endswith(f"/{n}") or f"/{n}".endswith(o) for o in others)]
    return extra or names[len(others) :]


def _will_be_global(kwargs: dict[str, Any]) -> bool:
    """Tell whether a creator's arguments put the variable into GLOBAL_VARIABLES, as TensorFlow does by default."""
    collections = kwargs.get("collections")
    return collections is None or tf.GraphKeys.GLOBAL_VARIABLES in collections


def _move_to_local(variable: Any) -> None:
    global_variables = variable.graph.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES)
    for position in range(len(global_variables) - 1, -1, -1):
        if global_variables[position] is variable:
            del global_variables[position]
            variable.graph.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, variable)
            return
