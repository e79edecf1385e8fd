"""The stack of what is current: towers, and the blocks of distribution strategies; one for each graph and each thread.

A context sits on it exactly as long as its ``with`` block runs. Code of a loop or condition, which TensorFlow builds
into a graph of its own, is part of the tower around it. Graphs are held weakly, so a finished graph takes its stack
along.
"""

import threading
from typing import Any
from weakref import WeakKeyDictionary

from tpack.tower.control_flow import built_graph


class _ThreadStacks(threading.local):
    def __init__(self) -> None:
        self.of_graph: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


_stacks = _ThreadStacks()


def context_stack() -> list[Any]:
    """Return this thread's stack of contexts for the graph that is being built; the innermost is last."""
    return _stacks.of_graph.setdefault(built_graph(), [])
