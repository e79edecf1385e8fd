"""Log what goes into a layer and what comes out, once for each layer of a graph.

The shapes of a model are worth reading once. The copies of it in other towers and for prediction have the same ones.
"""

from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.tower.context import get_current_tower_context
from tpack.utils import logger


class _ShapeLog:
    """Which layers were logged, by graph, and whether any are to be logged in this process."""

    def __init__(self) -> None:
        self.enabled = True
        self.logged: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


_log = _ShapeLog()


def disable_layer_logging() -> None:
    """Log the shapes of no more layers in this process."""
    _log.enabled = False


def log_shapes(name: str, inputs: Any, outputs: Any) -> None:
    """Log the shapes around a layer, if it is new in this graph and not part of another tower than the main one.

    Args:
        name: the layer's full name.
        inputs: a tensor, or a list or tuple of them.
        outputs: the same. What is no tensor is left out.
    """
    tower = get_current_tower_context()
    if not _log.enabled or (tower is not None and not tower.is_main_tower):
        return
    logged = _log.logged.setdefault(tf.get_default_graph(), set())
    if name not in logged:
        logged.add(name)
        logger.info(f"{name:<20} {_shapes(inputs)} --> {_shapes(outputs)}")


def _shapes(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(_shape(v) for v in values if tf.is_tensor(v))


def _shape(tensor: Any) -> str:
    if tensor.shape.rank is None:
        return "[unknown rank]"
    return f"[{', '.join('?' if size is None else str(size) for size in tensor.shape.as_list())}]"
