"""Decorators and blocks for name scopes and variable scopes."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.tower.names import join_scope

F = TypeVar("F", bound=Callable[..., Any])


def auto_reuse_variable_scope(func: F) -> F:
    """Decorate a function so that calling it again under the same variable scope reuses its variables.

    The first call in a scope creates variables as usual. A later one creates none: asking for a variable that the
    first did not create is TensorFlow's error.

    Example:
        @auto_reuse_variable_scope
        def discriminator(image):
            ...

        with tf.variable_scope("discrim"):
            real = discriminator(image)
            fake = discriminator(generated)
    """
    seen: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        scope = tf.get_variable_scope()
        called_in = seen.setdefault(tf.get_default_graph(), set())
        reuse = True if scope.name in called_in else None
        with tf.variable_scope(scope, reuse=reuse, auxiliary_name_scope=False):
            result = func(*args, **kwargs)
        called_in.add(scope.name)
        return result

    return wrapper  # type: ignore[return-value]


def under_name_scope(name_scope: str | None = None) -> Callable[[F], F]:
    """Decorate a function so that its operations are made in a name scope.

    Args:
        name_scope: the scope; by default the function's name.
    """

    def decorate(func: F) -> F:
        name = name_scope or func.__name__

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with tf.name_scope(name):
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


@contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """Open the same name scope each time, where ``tf.name_scope`` would open ``name_1`` the second time.

    Args:
        name: the scope.
        top_level: put it at the top of the graph and not into the current scope.

    Returns:
        The scope's full name, ending in a slash.
    """
    parent = "" if top_level else tf.get_default_graph().get_name_scope()
    # TensorFlow takes a name that ends in a slash as it is.
    with tf.name_scope(join_scope(parent, name) + "/") as scope:
        yield scope
