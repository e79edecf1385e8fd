"""A graph's collections, which are global lists, for towers that are written as if they were alone.

Building the second tower must not add its summaries a second time, and a tower function that asks for "the losses"
means its own. `backup_collection` and `CollectionSnapshot` copy collections. `TowerCollections` is one tower's part of
them: while the tower is open, its own collections hold its part only; when it is closed, items to be kept once for all
towers are kept.

Towers usually are built one after the other. Where they meet in the middle (`TowerContext.merge_call`), a paused tower
takes its additions out of the collections and puts them back when it continues: every collection holds what it would if
the towers had been built one after the other. Keras's counts for layer names are separated in the same way.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.keras_names import KerasNames
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments

T = TypeVar("T")

_DROPPED = (
    "Summaries are written in the main training tower only, since all towers are built by the same function: those of "
    "the others are dropped"
)

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""Update ops of moving averages of scalars, run with every step."""

STATISTICS_KEY = "STATISTICS_OF_TOWERS"
"""Scalars of each training tower whose means over the towers are statistics, called as the scalars are in the tower."""

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


@check_arguments
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


@check_arguments
def restore_collection(backup: Mapping[str, Iterable[Any]]) -> None:
    """Set each collection in ``backup`` of the current graph to what was copied; leave the others alone."""
    graph = tf.get_default_graph()
    for key, items in backup.items():
        current = graph.get_collection_ref(key)
        current[:] = list(items)


@contextmanager
@check_arguments
def freeze_collection(keys: Iterable[str]) -> Iterator[None]:
    """Undo, on leaving, whatever was added to these collections of the current graph."""
    backup = backup_collection(keys)
    try:
        yield
    finally:
        restore_collection(backup)


class CollectionSnapshot:
    """The content of collections at one moment.

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


def items_added(before: Sequence[T], now: Sequence[T]) -> list[T]:
    """Return the items of ``now`` that are not in ``before``, in order; items are compared by identity."""
    # Almost always nothing was removed or moved, and most collections did not grow.
    start = len(before) if len(before) <= len(now) and all(map(operator.is_, before, now)) else 0
    if start == len(now):
        return []
    known = set(map(id, before))
    return [item for item in now[start:] if id(item) not in known]


def _as_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise ConfigError(f"expected a list of collection keys, got the single string {keys!r}")
    return list(keys)


class CollectionPolicy(NamedTuple):
    """The fate of a tower's part of the collections.

    Attributes:
        isolated: the collections of which the tower sees only its own part while it is built.
        discarded: those of which its part is dropped.
    """

    isolated: tuple[str, ...] = LOSS_KEYS
    discarded: tuple[str, ...] = ()

    @property
    def keeps_updates(self) -> bool:
        """Whether the tower's update operations are kept."""
        return tf.GraphKeys.UPDATE_OPS not in self.discarded

    def with_own_variables(self) -> "CollectionPolicy":
        """Return the policy of a tower with trainable variables that belong to it alone, as its losses do."""
        trainable = (tf.GraphKeys.TRAINABLE_VARIABLES,)
        return CollectionPolicy(self.isolated + trainable, self.discarded + trainable if self.discarded else ())


KEEP_ALL = CollectionPolicy()
"""Of the first training tower, all that it adds is kept."""

KEEP_UPDATES = CollectionPolicy(discarded=(*LOSS_KEYS, *SUMMARY_KEYS))
"""Of a training tower with a part of the variables to itself, what updates them is kept, and what it reports is not."""

KEEP_VARIABLES = CollectionPolicy(discarded=(*LOSS_KEYS, *SUMMARY_KEYS, tf.GraphKeys.UPDATE_OPS))
"""Of a tower for prediction, or one that shares all variables, not even the update operations are kept."""


class TowerCollections:
    """One tower's part of the collections of the current graph.

    Items of other towers that the tower removes are restored when it is paused.

    Args:
        policy: the fate of this part.
        says_dropped: log once that summaries are dropped. Predictions are not expected to have any.
    """

    _graph: tf.Graph
    _keras_names: KerasNames

    def __init__(self, policy: CollectionPolicy, *, says_dropped: bool = True) -> None:
        self._policy = policy
        self._says_dropped = says_dropped
        self._is_open = False
        self._was_paused = False
        self._around: dict[str, list[Any]] = {}
        self._foreign: dict[str, set[int]] = {}
        self._own: dict[str, list[Any]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the tower is being built; also true while it is paused."""
        return self._is_open

    def open(self) -> None:
        """Begin: from here on, what is added to the current graph's collections belongs to the tower."""
        graph = tf.get_default_graph()
        self._graph = graph
        self._around = _backup()
        restore_collection({key: [] for key in self._policy.isolated})
        self._keras_names = KerasNames(graph)
        self._keras_names.swap()
        self._is_open = True

    def close(self) -> None:
        """End: keep what was added and is to be kept, and put back what was out of sight."""
        isolated, discarded = self._policy
        self._keras_names.swap()
        with self._graph.as_default():
            self._own = {key: self.added(key) for key in _keys()}
            self._is_open = False
            if self._was_paused:
                restore_collection({key: self._around.get(key, []) + own for key, own in self._own.items()})
            kept = {key: [] if key in discarded else self._own.get(key, []) for key in (*isolated, *discarded)}
            restore_collection({key: self._around.get(key, []) + own for key, own in kept.items()})
        if self._says_dropped and any(self._own.get(key) for key in SUMMARY_KEYS if key in discarded):
            log_dropped_summaries()

    def added(self, key: str) -> list[Any]:
        """Return what the tower added to a collection so far, also after it was closed."""
        if not self._is_open:
            return list(self._own.get(key, ()))
        added = items_added(self._around.get(key, ()), self._graph.get_collection(key))
        foreign = self._foreign.get(key, ())
        return [item for item in added if id(item) not in foreign]

    def hidden(self, key: str) -> list[Any]:
        """Return what a collection that the tower sees only its own part of held when the tower was opened last."""
        return list(self._around.get(key, ())) if key in self._policy.isolated else []

    def visible(self, key: str) -> list[Any]:
        """Return what a collection holds for the tower, other towers' items included."""
        if self._is_open and self._was_paused:
            return self._around.get(key, []) + self.added(key)
        return list(self._graph.get_collection(key))

    def pause(self) -> None:
        """Take the tower's additions out of the collections, which then are as if it had not been there."""
        own = {key: self.added(key) for key in _keys()}
        restore_collection({key: self._around.get(key, []) for key in own})
        self._keras_names.swap_of_graph()
        self._own, self._was_paused = own, True

    def resume(self) -> None:
        """Undo `pause` among what the collections hold by now."""
        self._keras_names.swap_of_graph()
        for key, items in self._around.items():
            self._foreign.setdefault(key, set()).update(map(id, items))
        self._around = _backup()
        isolated = set(self._policy.isolated)
        own = {key: self._own.get(key, []) for key in {*self._own, *isolated}}
        restore_collection({k: ([] if k in isolated else self._around.get(k, [])) + v for k, v in own.items()})

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show in a block what the tower, which is paused, keeps for all towers; what the block adds stays."""
        before = _backup()
        own = {key: items for key, items in self._own.items() if items and key not in self._policy.discarded}
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
