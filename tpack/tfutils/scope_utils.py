"""Decorators and blocks for name and variable scopes, and names that are equal in every tower.

A tower's own scopes are removed from the front of a name. The parts of a variable on several devices have the name of
the whole.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.tower.collections import log_dropped_summaries
from tpack.tower.context import get_current_tower_context
from tpack.tower.names import join_scope
from tpack.tower.per_graph import PerGraph

F = TypeVar("F", bound=Callable[..., Any])


def auto_reuse_variable_scope(func: F) -> F:
    """Decorate a function so that calling it again under the same variable scope reuses its variables.

    A later call that requests a variable which the first did not create is TensorFlow's error.

    Example:
        @auto_reuse_variable_scope
        def discriminator(image):
            ...

        with tf.variable_scope("discrim"):
            real = discriminator(image)
            fake = discriminator(generated)
    """
    seen: PerGraph[set[str]] = PerGraph(set)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        scope = tf.get_variable_scope()
        called_in = seen.of(tf.get_default_graph())
        reuse = True if scope.name in called_in else None
        with tf.variable_scope(scope, reuse=reuse, auxiliary_name_scope=False):
            result = func(*args, **kwargs)
        called_in.add(scope.name)
        return result

    return wrapper  # type: ignore[return-value]


def under_name_scope(name_scope: str | None = None) -> Callable[[F], F]:
    """Decorate a function so that its operations are made in a name scope, by default of the function's name.

    A call can name another scope, by the keyword ``name_scope``, unless the function has an argument of this name.
    """

    def decorate(func: F) -> F:
        name = name_scope or func.__name__
        has_own = "name_scope" in inspect.signature(func).parameters

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            called = None if has_own else kwargs.pop("name_scope", None)
            with tf.name_scope(called or name):
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


@contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """Open the same name scope each time, where ``tf.name_scope`` would open ``name_1``, and yield its full name.

    Args:
        name: the scope.
        top_level: put it at the top of the graph and not into the current scope.
    """
    parent = "" if top_level else tf.get_default_graph().get_name_scope()
    # TensorFlow takes a name that ends in a slash as it is.
    with tf.name_scope(join_scope(parent, name) + "/") as scope:
        yield scope


def name_without_tower(tensor: tf.Tensor | tf.Variable) -> str:
    """Return the name of the tensor's operation without the current tower's name scope."""
    context = get_current_tower_context()
    return _without_scope(tensor.op.name, context.ns_name if context else "")


def variable_name_without_tower(variable: tf.Variable) -> str:
    """Return the name of a variable, or of the whole that it is a part of, without the tower's variable scope."""
    context = get_current_tower_context()
    return _without_scope(whole_variable(variable).op.name, context.vs_name if context else "")


def whole_variable(variable: tf.Variable) -> tf.Variable:
    """Return the variable of several devices that a variable is a part of, or else the variable itself.

    Where a strategy updates one device after the other, both read and assign the same, and only the whole one has the
    name that the model gave it.
    """
    reference = getattr(variable, "_distributed_container", None)
    whole = None if reference is None else reference()
    return variable if whole is None else whole


def writes_summaries() -> bool:
    """Tell whether summaries made here are kept: outside of towers and in the main training tower.

    The first time that those of a training tower are not, the log says so.
    """
    context = get_current_tower_context()
    if context is None or context.is_main_training_tower:
        return True
    if context.is_training:
        log_dropped_summaries()
    return False


@contextmanager
def shared_by_towers() -> Iterator[None]:
    """Make variables in this block that are shared by all towers instead of the current tower's own."""
    context = get_current_tower_context()
    if context is None:
        yield
        return
    with context.recorder.paused():
        yield


def _without_scope(name: str, scope: str) -> str:
    scope = scope.rstrip("/")
    return name.removeprefix(f"{scope}/") if scope else name
