"""Updates that Keras layers make while they are called: moving averages, and the state of random numbers.

In a graph, an update is an operation that somebody has to run. Keras 3 makes it and tells nobody. What its layers made
in a training tower is put into the collection UPDATE_OPS here, which is run with each step.
"""

import sys
from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import run_after
from tpack.tower.model_variables import add_model_variable
from tpack.tower.names import join_scope

_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
# Where a layer is called, in Keras 3 and tf_keras.
_CALLS = ("/keras/src/layers/layer.py", "/tf_keras/src/engine/base_layer.py", "/tf_keras/src/engine/base_layer_v1.py")


class KerasUpdates:
    """The updates that Keras layers make in the current graph from now on, in one tower.

    Args:
        name_scope: that of the tower; empty for none.
    """

    def __init__(self, name_scope: str) -> None:
        self._prefix = join_scope(name_scope, "")
        self._graph = tf.get_default_graph()
        self._num_before = len(self._graph.get_operations()) if _is_keras_loaded() else 0

    def collect(self, variables: Iterable[Any]) -> None:
        """Add the updates to the collection UPDATE_OPS, each to run after what the tower read before it.

        What they update is part of the model, as moving averages of tpack's layers are.

        Without an order, random numbers might be drawn from the state before or after its update.

        Args:
            variables: those that the tower made; an operation that initialises one is no update.
        """
        if not _is_keras_loaded():
            return
        # A variable of several devices is initialised by those of its components, and updated through them.
        parts = [(part, whole) for whole in variables for part in getattr(whole, "components", [whole])]
        initializers = {part.initializer.name for part, _ in parts}
        by_handle = {part.handle.name: whole for part, whole in parts if hasattr(part, "handle")}
        known = {id(op) for op in self._graph.get_collection(tf.GraphKeys.UPDATE_OPS)}
        reads: dict[str, list[Any]] = {}
        for op in self._graph.get_operations()[self._num_before :]:
            if not op.name.startswith(self._prefix):
                continue
            if op.type == "ReadVariableOp":
                reads.setdefault(op.inputs[0].name, []).append(op)
            elif op.type in _UPDATES and op.name not in initializers and id(op) not in known and _is_made_by_keras(op):
                run_after(op, reads.get(op.inputs[0].name, []))
                self._graph.add_to_collection(tf.GraphKeys.UPDATE_OPS, op)
                if op.inputs[0].name in by_handle:
                    add_model_variable(by_handle[op.inputs[0].name])


def _is_keras_loaded() -> bool:
    return "keras" in sys.modules or "tf_keras" in sys.modules


def _is_made_by_keras(op: Any) -> bool:
    """Tell whether an operation was made while a layer was called, and not by a user who assigns to its variable."""
    return any(frame.name == "__call__" and frame.filename.endswith(_CALLS) for frame in op.traceback)
