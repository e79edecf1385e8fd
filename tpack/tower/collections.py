"""A graph's collections, which are global lists, for towers that are written as if they were alone.

The second tower must not add its summaries a second time, and a tower function that requests "the losses" means its
own. `TowerCollections` is one tower's part of the collections: while the tower is open, its own collections hold its
part only; when it is closed, items to be kept once for all towers are kept.

Where towers meet in the middle (`TowerContext.merge_call`), a paused tower takes its additions out of the collections
and restores them when it continues: every collection holds what it would if the towers had been built one after the
other. Keras's counts for layer names are separated in the same way.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import tensorflow.compat.v1 as tf

from tpack.tower.keras_names import KerasNames
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments

T = TypeVar("T")
_DROPPED = "Summaries are written in the main training tower only: those of the other towers are dropped"

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""Update ops of moving averages of scalars, run with every step."""

STATISTICS_KEY = "STATISTICS_OF_TOWERS"
"""Scalars of each training tower whose means over the towers are statistics, called as the scalars are in the tower."""

TRAINED_TENSORS_KEY = "TRAINED_TENSORS"
"""Tensors of a tower, such as rows of another process, whose gradients its builder gets beside those of variables."""

EPOCH_MEANS_KEY = "EPOCH_MEANS"
"""Names of statistics that a callback averages over an epoch, which need no moving average."""

WORKER_RANK_KEY = "RANK_OF_WORKER"
"""The rank of a worker after the first, which draws other random numbers."""

SUMMARY_KEYS = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARY_OPS_KEY)
"""Written once a run, so only the main training tower adds to them."""

LOSS_KEYS = (tf.GraphKeys.LOSSES, tf.GraphKeys.REGULARIZATION_LOSSES)
"""Asked for by the tower function that filled them, so a tower sees its own part only."""


@check_arguments
def backup_collection(keys: Iterable[str] | None = None) -> dict[str, list[Any]]:
    """Copy collections of the current graph, by default all, into a new dict of new lists."""
    graph = tf.get_default_graph()
    return {key: list(graph.get_collection(key)) for key in (graph.get_all_collection_keys() if keys is None else keys)}


@check_arguments
def restore_collection(backup: Mapping[str, Iterable[Any]]) -> None:
    """Set each collection in ``backup`` of the current graph to the copy; leave the others alone."""
    graph = tf.get_default_graph()
    for key, items in backup.items():
        graph.get_collection_ref(key)[:] = list(items)


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

    A missing collection counts as empty. Items are compared by identity, since graph tensors overload equality.

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
    """Return the items of ``now`` that are not in ``before``, compared by identity, in order."""
    # Almost always nothing was removed or moved, and most collections did not grow.
    start = len(before) if len(before) <= len(now) and all(map(operator.is_, before, now)) else 0
    if start == len(now):
        return []
    known = set(map(id, before))
    return [item for item in now[start:] if id(item) not in known]


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
        says_dropped: log once that summaries are dropped; not for predictions.
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
        """Begin: later additions to the current graph's collections belong to the tower."""
        self._graph = tf.get_default_graph()
        self._around = _backup()
        restore_collection({key: [] for key in self._policy.isolated})
        self._keras_names = KerasNames(self._graph)
        self._keras_names.swap()
        self._is_open = True

    def close(self) -> None:
        """End: keep the additions to be kept, and restore the hidden items."""
        isolated, discarded = self._policy
        self._keras_names.swap()
        with self._graph.as_default():
            self._own = {key: self.added(key) for key in collection_keys()}
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
        """Return the items of an isolated collection before the tower was opened last."""
        return list(self._around.get(key, ())) if key in self._policy.isolated else []

    def visible(self, key: str) -> list[Any]:
        """Return the items of a collection for the tower, other towers' items included."""
        if self._is_open and self._was_paused:
            return self._around.get(key, []) + self.added(key)
        return list(self._graph.get_collection(key))

    def pause(self) -> None:
        """Take the tower's additions out of the collections, as if it had not been there."""
        own = {key: self.added(key) for key in collection_keys()}
        restore_collection({key: self._around.get(key, []) for key in own})
        self._keras_names.swap_of_graph()
        self._own, self._was_paused = own, True

    def resume(self) -> None:
        """Undo `pause` in the current collections."""
        self._keras_names.swap_of_graph()
        for key, items in self._around.items():
            self._foreign.setdefault(key, set()).update(map(id, items))
        self._around = _backup()
        isolated = set(self._policy.isolated)
        own = {key: self._own.get(key, []) for key in {*self._own, *isolated}}
        restore_collection({k: ([] if k in isolated else self._around.get(k, [])) + v for k, v in own.items()})

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show in a block the items that the paused tower keeps for all towers; additions in the block stay."""
        before = _backup()
        own = {key: items for key, items in self._own.items() if items and key not in self._policy.discarded}
        restore_collection({key: before.get(key, []) + items for key, items in own.items()})
        snapshot = CollectionSnapshot()
        try:
            yield
        finally:
            restore_collection({key: before.get(key, []) + snapshot.added(key) for key in own})


def log_dropped_summaries() -> None:
    """Log once in a process why the summaries of a tower are not written."""
    log_once(_DROPPED)


def collection_keys() -> list[str]:
    """Return the keys of the current graph's collections."""
    # Under other keys, TensorFlow and others keep what a graph has one of, such as its store of variables.
    return [key for key in tf.get_default_graph().get_all_collection_keys() if isinstance(key, str)]


def _backup() -> dict[str, list[Any]]:
    return backup_collection(collection_keys())
