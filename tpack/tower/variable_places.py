"""Find the variable that another tower made at the same place in the tower function.

``tf.get_variable`` shares variables by their names. ``tf.Variable``, and with it Keras, always makes a new one. In a
tower that takes the variables of another one, such as every tower for prediction, a variable that is about to be made
is instead looked up by its place: the name scopes inside the tower, its name, and how many were made there before.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat import is_in_variable_store
from tpack.errors import TowerMismatchError
from tpack.tower.names import join_scope

_PLACES_KEY = ("tpack_variable_places",)
"""The places of all towers of a graph. A tuple as the key, which TensorFlow's own stores have, is never saved."""


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
