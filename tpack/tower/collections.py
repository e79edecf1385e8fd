"""Snapshots of graph collections: what was added since, and how to take it back.

A graph's collections are global lists. Building the second tower must not add its summaries a second time, and a tower
function that asks for "the losses" means its own. Both need to remember a collection and to put it back.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError


def backup_collection(keys: Iterable[str] | None = None) -> dict[str, list[Any]]:
    """Copy collections of the current graph.

    Args:
        keys: which; None means all that exist.

    Returns:
        A new dict of new lists.
    """
    graph = tf.get_default_graph()
    wanted = graph.get_all_collection_keys() if keys is None else _as_keys(keys)
    return {key: list(graph.get_collection(key)) for key in wanted}


def restore_collection(backup: Mapping[str, Iterable[Any]]) -> None:
    """Set each collection in ``backup`` of the current graph to what was copied; leave the others alone."""
    graph = tf.get_default_graph()
    for key, items in backup.items():
        current = graph.get_collection_ref(key)
        current[:] = list(items)


@contextmanager
def freeze_collection(keys: Iterable[str]) -> Iterator[None]:
    """Undo, on leaving, whatever was added to these collections of the current graph."""
    backup = backup_collection(keys)
    try:
        yield
    finally:
        restore_collection(backup)


class CollectionSnapshot:
    """What collections held at one moment.

    A collection that did not exist then counts as empty. Items are compared by identity, since graph tensors overload
    equality.

    Example:
        snapshot = CollectionSnapshot()
        build_something()
        snapshot.added("losses")
    """

    def __init__(self) -> None:
        self._graph = tf.get_default_graph()
        self._before = backup_collection()

    def added(self, key: str) -> list[Any]:
        """Return what was added to collection ``key`` since the snapshot, in order."""
        return items_added(self._before.get(key, ()), self._graph.get_collection(key))


def items_added(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """Return the items of ``now`` that are not in ``before``, in order; items are compared by identity."""
    # Almost always nothing was removed or moved, and most collections did not grow.
    start = len(before) if len(before) <= len(now) and all(map(operator.is_, before, now)) else 0
    if start == len(now):
        return []
    known = set(map(id, before))
    return [item for item in now[start:] if id(item) not in known]


def _as_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise ConfigError(f"wanted a list of collection keys, got the single string {keys!r}")
    return list(keys)
