"""Values that tpack keeps for a graph, as long as both the graph and their owner exist.

The graph holds the values, under their `PerGraph`, which it holds weakly: a value may refer to its graph, which a weak
dictionary of graphs would then never release. It is in no collection, so it is not saved in a MetaGraph.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import current_seed

T = TypeVar("T")

_VALUES = "_tpack_values"
"""The attribute of a graph that holds its values."""

_lock = threading.Lock()


class PerGraph(Generic[T]):
    """One value for each graph, made at the first request.

    Args:
        make: makes the value of a graph. A ``threading.local`` has another value in each thread.

    Example:
        _names: PerGraph[set[str]] = PerGraph(set)

        _names.here().add("fc1")
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def here(self) -> T:
        """Return the value of the graph that is being built; see `built_graph`."""
        return self.of(built_graph())

    def of(self, graph: tf.Graph) -> T:
        """Return the value of one graph; the graph of a loop, condition or function has a value of its own."""
        try:
            value: T = getattr(graph, _VALUES)[self]
        except (AttributeError, KeyError):
            return self._made(graph)
        return value

    def _made(self, graph: tf.Graph) -> T:
        with _lock:
            if not hasattr(graph, _VALUES):
                setattr(graph, _VALUES, WeakKeyDictionary())
        values: WeakKeyDictionary[PerGraph[T], T] = getattr(graph, _VALUES)
        return values.setdefault(self, self._make())


def new_graph() -> tf.Graph:
    """Return a new graph with the seed of the program's last ``tf.set_random_seed``."""
    graph = tf.Graph()
    seed = current_seed()
    with graph.as_default():
        tf.set_random_seed(seed)
    return graph


def built_graph() -> tf.Graph:
    """Return the graph that is being built: for code of a loop, condition or function, the one around it."""
    graph = tf.get_default_graph()
    while (outer := getattr(graph, "outer_graph", None)) is not None:
        graph = outer
    return graph
