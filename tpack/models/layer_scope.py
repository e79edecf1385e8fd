"""The variable scope of one layer: whose variables they are, and that each tower regularises its own.

Every ``get_variable`` of a layer passes through here. A name that was used for another layer already is explained,
where TensorFlow would only say that a variable exists. And a regularizer is applied once in each training tower:
TensorFlow applies it where it creates the variable, so that of towers which share variables only the first would pay
for them, and K towers would not learn what one learns.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.context import get_current_tower_context
from tpack.tower.keys import VARIABLE_KEYS

_built: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


@contextmanager
def layer_scope(kind: str, name: str | None) -> Iterator[Any]:
    """Open the scope in which a layer makes its variables and operations.

    Args:
        kind: the name of the layer's function.
        name: the name of the variable scope that is opened; None stays in the current one.

    Raises:
        ConfigError: The layer asks for a variable that a layer of this name made before, and the scope does not reuse
            variables.
    """
    guard = _Guard(kind, name)
    with _ask_in_current_scope(guard) if name is None else tf.variable_scope(name, custom_getter=guard) as scope:
        guard.key = scope.name if name is not None else f"{scope.name}:{kind}"
        yield scope
        _built.setdefault(tf.get_default_graph(), set()).add(guard.key)


@contextmanager
def _ask_in_current_scope(guard: "_Guard") -> Iterator[Any]:
    """Put a custom getter before that of the current variable scope for a block.

    Opening the scope again would do that too, and forget afterwards which default names were used in the block.
    """
    scope = tf.get_variable_scope()
    before = scope.custom_getter

    def getter(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return guard(functools.partial(before, getter), *args, **kwargs)

    scope.set_custom_getter(guard if before is None else getter)
    try:
        yield scope
    finally:
        scope.set_custom_getter(before)


class _Guard:
    """The custom getter of one call of a layer."""

    def __init__(self, kind: str, name: str | None) -> None:
        self._kind = kind
        self._name = name
        self.key = ""

    def __call__(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        """Get the variable ``name``."""
        regularizer = kwargs.get("regularizer")
        # The innermost layer is asked first and applies the regularizer; the layers around it see that it is done.
        if regularizer is None or isinstance(regularizer, _Created):
            return self._get(getter, name, *args, **kwargs)
        created = _Created()
        result = self._get(getter, name, *args, **{**kwargs, "regularizer": created})
        # The variable itself: a custom getter may have returned a function of it, such as a cast.
        _regularize_in_this_tower(
            name, _find_variable(name) if created.variable is None else created.variable, regularizer
        )
        return result

    def _get(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getter(name, *args, **kwargs)
        except ConfigError:
            raise
        except ValueError as error:
            if not kwargs.get("reuse") and self._was_built() and _find_variable(name) is not None:
                raise ConfigError(self._used_twice(name)) from error
            raise

    def _was_built(self) -> bool:
        return self.key in _built.get(tf.get_default_graph(), ())

    def _used_twice(self, variable_name: str) -> str:
        if self._name is None:
            problem = f"{self._kind} without a name was called twice in one variable scope"
            remedy = f"give it a name, {self._kind}('name', x)"
        else:
            problem = f"{self._kind} {self.key!r}: there is a layer of this name already"
            remedy = "give each layer a name of its own"
        return (
            f"{problem}, so its variable {variable_name!r} exists: {remedy}, or share the variables by calling it in "
            "tf.variable_scope(..., reuse=tf.AUTO_REUSE)"
        )


class _Created:
    """Given to TensorFlow as the regularizer: learns which variable is created, and regularises nothing."""

    variable: Any = None

    def __call__(self, variable: Any) -> None:
        """Note the variable."""
        self.variable = variable


def _regularize_in_this_tower(name: str, variable: Any, regularizer: Callable[[Any], Any]) -> None:
    """Add the loss of a variable to the collection, unless this tower has it already or is one for prediction."""
    tower = get_current_tower_context()
    if variable is None or (tower is not None and not tower.is_training):
        return
    # The loss of a layer in a loop or condition belongs to the graph around that, as the variable does.
    with tf.init_scope():
        losses = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        if any(getattr(loss, "regularized_variable_name", None) == name for loss in losses):
            return
        # Variables are made outside of name scopes, so this is one at the top of the graph.
        with tf.name_scope(f"{name}/Regularizer"):
            loss = regularizer(variable)
        if loss is not None:
            loss = tf.convert_to_tensor(loss)
            loss.regularized_variable_name = name
            losses.append(loss)


def _find_variable(name: str) -> Any:
    graph = tf.get_default_graph()
    found = (v for key in VARIABLE_KEYS for v in graph.get_collection_ref(key) if v.op.name == name)
    return next(found, None)
