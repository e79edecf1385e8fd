"""Names of Keras layers, the same in each tower.

Keras counts the layers of a kind in the whole process and calls them ``dense``, ``dense_1`` and so on. The copies of a
layer in several towers would have different names, and a model that is built twice would not find its checkpoint. In a
tower the count starts from zero; after it, the former count continues. Nothing here imports Keras.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

import tensorflow.compat.v1 as tf

Counts: TypeAlias = "dict[Hashable, int] | None"
"""How many layers of each kind there are; None where there is no Keras, or none counted yet."""


class KerasNames:
    """The counts of a tower of a graph, for Keras 3, which counts by thread, and tf_keras, which counts by graph."""

    def __init__(self, graph: tf.Graph) -> None:
        self._of_thread = _Swap(_exchange_keras_3)
        self._of_graph = _Swap(partial(_exchange_tf_keras, graph))

    def swap(self) -> None:
        """Exchange the tower's counts with those around it."""
        self._of_thread()
        self._of_graph()

    def swap_of_graph(self) -> None:
        """Exchange only the counts of the graph, when the tower's thread continues or pauses."""
        self._of_graph()


class _Swap:
    """Exchanges the current value with the one at the last call; the first time, with none."""

    def __init__(self, exchange: Callable[[Counts], Counts]) -> None:
        self._exchange = exchange
        self._other: Counts = None

    def __call__(self) -> None:
        self._other = self._exchange(self._other)


def keep_keras_policy() -> Callable[[], None]:
    """Return a function that makes Keras 3's current dtype policy that of the thread in which it is called."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    policy = state and state.get_global_attribute("dtype_policy")

    def install() -> None:
        if state is not None and policy is not None:
            state.set_global_attribute("dtype_policy", policy)

    return install


def _exchange_keras_3(counts: Counts) -> Counts:
    """Set the counts of the calling thread, None for new ones; return those before."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    if state is None:
        return None
    before: Counts = state.get_global_attribute("object_name_uids")
    state.set_global_attribute("object_name_uids", defaultdict(int) if counts is None else counts)
    return before


def _exchange_tf_keras(graph: tf.Graph, counts: Counts) -> Counts:
    """Set the counts of a graph, None for new ones; return those before."""
    backend = sys.modules.get("tf_keras.src.backend")
    if backend is None:
        return None
    before: Counts = backend.PER_GRAPH_OBJECT_NAME_UIDS.pop(graph, None)
    if counts is not None:
        backend.PER_GRAPH_OBJECT_NAME_UIDS[graph] = counts
    return before
