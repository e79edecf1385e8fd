"""Code in loops, conditions and functions of TensorFlow, which is built apart from the graph that it belongs to.

Such code is built into a graph of its own inside the other one. It sees the tower that it is part of; what it adds to
a collection of operations, nobody outside can run.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack import compat


def built_graph() -> Any:
    """Return the graph that is being built: in code of a loop, condition or function, the one that this belongs to."""
    graph = tf.get_default_graph()
    while (outer := getattr(graph, "outer_graph", None)) is not None:
        graph = outer
    return graph


def is_in_control_flow() -> bool:
    """Tell whether what is built now goes into a loop, condition or function of TensorFlow."""
    graph = built_graph()
    return tf.get_default_graph() is not graph or compat.is_in_control_flow(graph)
