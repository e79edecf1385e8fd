"""Layers that are not tpack's, under tpack's names of variables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tpack.tower.getters import custom_getter_scope
from tpack.utils.renames import on_unknown_name

__getattr__ = on_unknown_name(__name__)

__all__ = ["rename_tflayer_get_variable"]

_RENAMED = {"kernel": "W", "bias": "b"}


@contextmanager
def rename_tflayer_get_variable() -> Iterator[None]:
    """Rename the variables that ``tf.layers`` asks for in this block: ``conv/kernel`` becomes ``conv/W``.

    Every ``tf.get_variable`` in the block is meant. ``tf.layers`` itself works with ``tf_keras`` only, that is with the
    environment variable ``TF_USE_LEGACY_KERAS=1``.

    Example:
        with rename_tflayer_get_variable():
            x = tf.layers.conv2d(image, 32, 3, name="conv0")
    """

    def renaming(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        return getter(f"{scope}{slash}{_RENAMED.get(last, last)}", *args, **kwargs)

    with custom_getter_scope(renaming):
        yield
