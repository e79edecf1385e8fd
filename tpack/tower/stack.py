"""The stack of what is current: towers, and the blocks of distribution strategies; one for each graph and each thread.

A context sits on it exactly as long as its ``with`` block runs. Graphs are held weakly, so a finished graph takes its
stack along.
"""

import threading
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf


class _ThreadStacks(threading.local):
    def __init__(self) -> None:
        self.of_graph: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


_stacks = _ThreadStacks()


def context_stack() -> list[Any]:
    """Return this thread's stack of contexts for the current default graph; the innermost is last."""
    return _stacks.of_graph.setdefault(tf.get_default_graph(), [])


def innermost_context() -> Any:
    """Return the innermost context of this thread, or None.

    In the body of a TensorFlow function, loop or condition, which is a graph of its own, it is that of the graph for
    which the body is built.
    """
    graph = tf.get_default_graph()
    while graph is not None:
        stack = _stacks.of_graph.get(graph)
        if stack:
            return stack[-1]
        graph = getattr(graph, "outer_graph", None)
    return None
