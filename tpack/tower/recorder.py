"""Remember which variables a tower creates, so that replicas are paired by record and not by name.

Towers run the same function, so the n-th variable that one tower creates is the copy of the n-th that the main tower
creates. Names only serve as a check: they are never taken apart to find a partner.

Find the variable that another tower made at the same place in the tower function.

``tf.get_variable`` shares variables by their names. ``tf.Variable``, and with it Keras, always makes a new one. In a
tower that takes the variables of another one, such as every tower for prediction, a variable that is about to be made
is instead looked up by its place: the name scopes inside the tower, its name, and how many were made there before.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat import is_in_variable_store
from tpack.errors import TowerMismatchError
from tpack.tower.names import join_scope

_PLACES_KEY = ("tpack_variable_places",)
"""The places of all towers of a graph. A tuple as the key, which TensorFlow's own stores have, is never saved."""


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


class VariablePlaces:
    """The places of the variables that one tower makes or takes."""

    def __init__(self) -> None:
        self._made: list[tuple[str, Any]] = []
        self._taken: Counter[str] = Counter()
        self._name_scope = ""
        self._variable_scope = ""

    def begin(self) -> None:
        """Note the scopes of the tower, which are the current ones: places are relative to them."""
        graph = tf.get_default_graph()
        self._name_scope = graph.get_name_scope()
        self._variable_scope = tf.get_variable_scope().name
        known = graph.get_collection_ref(_PLACES_KEY)
        if not any(places is self for places in known):
            known.append(self)

    def place(self, name: str | None) -> str:
        """Return the place of a variable of this name that is made now."""
        current = tf.get_default_graph().get_name_scope()
        if f"{current}/".startswith(f"{self._name_scope}/"):
            current = current[len(self._name_scope) :].lstrip("/")
        return join_scope(current, name or "Variable")

    def note(self, place: str, variable: Any) -> None:
        """Remember a variable that this tower made."""
        self._made.append((place, variable))

    def take(
        self, name: str | None, initial_value: Any, owner: str, made_by: "Sequence[VariablePlaces] | None" = None
    ) -> Any:
        """Return the variable that another tower made at the place where this one is.

        Args:
            name: what the variable would be called.
            initial_value: what it would hold; its shape is compared if that is known without computing it.
            owner: this tower, for messages.
            made_by: the places of the other tower, or of several to look through; None for all of the graph that are
                in the same variable scope.

        Raises:
            TowerMismatchError: There is none, or it has another shape. The message lists near names.
        """
        place = self.place(name)
        if made_by is None:
            known = tf.get_default_graph().get_collection(_PLACES_KEY)
            made_by = [places for places in known if places._variable_scope == self._variable_scope]
        towers = [
            [(where, made) for where, made in places._made if not is_in_variable_store(made)] for places in made_by
        ]
        for made in towers:
            here = [variable for where, variable in made if where == place]
            if self._taken[place] < len(here):
                variable = here[self._taken[place]]
                _check_shape(variable, initial_value, owner)
                self._taken[place] += 1
                return variable
        near = get_close_matches(place, {where for made in towers for where, _ in made}, n=5)
        hint = f"; near names: {', '.join(near)}" if near else ""
        raise TowerMismatchError(
            f"{owner} creates the variable {place!r}, which the main training tower did not: a tower function must use "
            "the same variables in every tower, in training and in prediction. What tf.Variable and Keras layers make "
            f"is found by its name and its name scopes{hint}"
        )


def _check_shape(variable: Any, initial_value: Any, owner: str) -> None:
    if initial_value is None or callable(initial_value):
        return
    shape = initial_value.shape if hasattr(initial_value, "shape") else np.shape(initial_value)
    if not variable.shape.is_compatible_with(shape):
        raise TowerMismatchError(
            f"{owner} wants a variable of shape {tf.TensorShape(shape)} where the main training tower made "
            f"{variable.op.name} of shape {variable.shape}"
        )
