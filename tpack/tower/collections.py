"""Snapshots of graph collections: what was added since, and how to take it back.

A graph's collections are global lists. Building the second tower must not add its summaries a second time, and a tower
function that asks for "the losses" means its own. Both need to remember a collection and to put it back.

What a tower adds to its graph's collections: kept apart from other towers, and carried aside while others build.

A graph's collections are global lists, and towers are written as if they were alone. While a tower is open, the
collections that are its own hold its part only; when it is closed, what is to be kept once for all towers is kept.

Towers usually are built one after the other. Where they meet in the middle (`TowerContext.merge_call`), a paused tower
takes its additions out of the collections and puts them back when it goes on, so that every tower finds, and in the end
every collection holds, what it would have if the towers had been built one after the other.

The counts that Keras names layers by are kept apart in the same way.

Graph collections that towers treat specially.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.keras_names import KerasNames
from tpack.utils.argtools import log_once

_DROPPED = (
    "Summaries are written in the main training tower only, since all towers are built by the same function: those of "
    "the others are dropped"
)
MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""Update ops of moving averages of scalars, run with every step."""

SUMMARY_KEYS = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY)
"""Written once a run, so only the main training tower adds to them."""

LOSS_KEYS = (tf.GraphKeys.LOSSES, tf.GraphKeys.REGULARIZATION_LOSSES)
"""Asked for by the tower function that filled them, so a tower sees its own part only."""

VARIABLE_KEYS = (
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
)
"""Shared by all towers, unless each has its own variables."""


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


class TowerCollections:
    """One tower's part of the collections of the current graph.

    Other towers' items that the tower removes from a collection are back when the tower has been put aside.

    Args:
        is_training: whether the tower is built for training.
        has_own_variables: whether it creates variables of its own.
        is_main: whether it is the first tower. The first training tower's additions are kept, all of them.
        keeps_updates: whether its update operations are kept; by default those of towers with own variables.
    """

    def __init__(
        self, *, is_training: bool, has_own_variables: bool, is_main: bool, keeps_updates: bool | None = None
    ) -> None:
        has_own = is_training and has_own_variables
        self._keeps_all = is_training and is_main
        self._isolated = (*LOSS_KEYS, tf.GraphKeys.TRAINABLE_VARIABLES) if has_own else LOSS_KEYS
        keeps_updates = has_own if keeps_updates is None else keeps_updates
        dropped = SUMMARY_KEYS if keeps_updates else (*SUMMARY_KEYS, tf.GraphKeys.UPDATE_OPS)
        self._dropped = () if self._keeps_all else dropped
        self._graph: Any = None
        self._keras_names: Any = None
        self._is_open = False
        self._was_aside = False
        self._around: dict[str, list[Any]] = {}
        self._foreign: dict[str, set[int]] = {}
        self._own: dict[str, list[Any]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the tower is being built; also true while it is put aside."""
        return self._is_open

    def open(self) -> None:
        """Begin: from here on, what is added to the current graph's collections belongs to the tower."""
        self._graph = tf.get_default_graph()
        self._around = _backup()
        restore_collection({key: [] for key in self._isolated})
        self._keras_names = KerasNames(self._graph)
        self._keras_names.swap()
        self._is_open = True

    def close(self) -> None:
        """End: keep what was added and is to be kept, and put back what was out of sight."""
        self._keras_names.swap()
        with self._graph.as_default():
            self._own = {key: self.added(key) for key in _keys()}
            self._is_open = False
            if self._was_aside:
                restore_collection({key: self._around.get(key, []) + own for key, own in self._own.items()})
            kept = self._own if self._keeps_all else {}
            closed = self._isolated + self._dropped
            restore_collection({key: self._around.get(key, []) + kept.get(key, []) for key in closed})
        if any(self._own.get(key) for key in SUMMARY_KEYS if key in self._dropped):
            log_dropped_summaries()

    def added(self, key: str) -> list[Any]:
        """Return what the tower added to a collection so far, also after it was closed."""
        if not self._is_open:
            return list(self._own.get(key, ()))
        added = items_added(self._around.get(key, ()), self._graph.get_collection(key))
        foreign = self._foreign.get(key, ())
        return [item for item in added if id(item) not in foreign]

    def visible(self, key: str) -> list[Any]:
        """Return what a collection holds for the tower, other towers' items included."""
        if self._is_open and self._was_aside:
            return self._around.get(key, []) + self.added(key)
        return list(self._graph.get_collection(key))

    def put_aside(self) -> None:
        """Take the tower's additions out of the collections, which then are as if it had not been there."""
        own = {key: self.added(key) for key in _keys()}
        restore_collection({key: self._around.get(key, []) for key in own})
        self._keras_names.swap_of_graph()
        self._own, self._was_aside = own, True

    def bring_back(self) -> None:
        """Undo `put_aside` among what the collections hold by now."""
        self._keras_names.swap_of_graph()
        for key, items in self._around.items():
            self._foreign.setdefault(key, set()).update(map(id, items))
        self._around = _backup()
        isolated = set(self._isolated)
        own = {key: self._own.get(key, []) for key in {*self._own, *isolated}}
        restore_collection({k: ([] if k in isolated else self._around.get(k, [])) + v for k, v in own.items()})

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show in a block what the tower, which is put aside, keeps for all towers; what the block adds stays."""
        hidden = set(self._dropped) | (set() if self._keeps_all else set(self._isolated))
        before = _backup()
        own = {key: items for key, items in self._own.items() if items and key not in hidden}
        restore_collection({key: before.get(key, []) + items for key, items in own.items()})
        snapshot = CollectionSnapshot()
        try:
            yield
        finally:
            restore_collection({key: before.get(key, []) + snapshot.added(key) for key in own})


def log_dropped_summaries() -> None:
    """Say, the first time in a process, why the summaries of a tower are not written."""
    log_once(_DROPPED)


def _keys() -> list[str]:
    # Under other keys, TensorFlow and others keep what a graph has one of, such as its store of variables.
    return [key for key in tf.get_default_graph().get_all_collection_keys() if isinstance(key, str)]


def _backup() -> dict[str, list[Any]]:
    return backup_collection(_keys())
