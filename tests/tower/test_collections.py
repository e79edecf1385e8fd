"""Snapshots of collections, against lists made by hand, and the groups that towers treat specially."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils import summary as tfutils_keys
from tpack.tower import collections
from tpack.tower.collections import CollectionSnapshot, backup_collection, freeze_collection, restore_collection
from tpack.tower.names import VARIABLE_KEYS


def test_backup_is_a_copy(graph):
    tf.add_to_collection("a", 1)
    backup = backup_collection()
    tf.add_to_collection("a", 2)
    backup["a"].append(3)
    assert tf.get_collection("a") == [1, 2]
    assert backup == {"a": [1, 3]}


def test_backup_of_some_keys_holds_those_that_do_not_exist_as_empty(graph):
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    assert backup_collection(key for key in ("b", "c")) == {"b": [2], "c": []}


def test_restore_puts_back_and_leaves_others_alone(graph):
    tf.add_to_collection("a", 1)
    backup = backup_collection(["a", "new"])
    for key in ("a", "b", "new"):
        tf.add_to_collection(key, 2)
    restore_collection(backup)
    assert [tf.get_collection(key) for key in ("a", "b", "new")] == [[1], [2], []]


def test_restore_keeps_the_list_that_others_hold(graph):
    held = tf.get_collection_ref("a")
    restore_collection({"a": (1, 2)})
    assert held == [1, 2]


def test_freeze_takes_back_what_was_added_also_on_an_error(graph):
    tf.add_to_collection("a", 1)
    with pytest.raises(ZeroDivisionError), freeze_collection(["a"]):
        tf.add_to_collection("a", 2)
        tf.add_to_collection("b", 3)
        raise ZeroDivisionError
    assert tf.get_collection("a") == [1]
    assert tf.get_collection("b") == [3]


@pytest.mark.parametrize("function", [backup_collection, lambda key: freeze_collection(key).__enter__()])
def test_a_single_string_is_an_error(graph, function):
    with pytest.raises(ConfigError, match="got keys='losses': expected an iterable of text"):
        function("losses")


def test_snapshot_tells_what_was_added_since_in_order(graph):
    first, second, third = (tf.constant(0) for _ in range(3))
    tf.add_to_collection("a", first)
    snapshot = CollectionSnapshot()
    tf.add_to_collections(["a", "new"], third)
    tf.add_to_collection("a", second)
    assert [t.name for t in snapshot.added("a")] == [third.name, second.name]
    assert [t.name for t in snapshot.added("new")] == [third.name]
    assert snapshot.added("missing") == []


def test_snapshot_belongs_to_the_graph_it_was_taken_in(graph):
    snapshot = CollectionSnapshot()
    with tf.Graph().as_default():
        tf.add_to_collection("a", 1)
        assert snapshot.added("a") == []


def test_groups_do_not_overlap():
    groups = [collections.SUMMARY_KEYS, collections.LOSS_KEYS, VARIABLE_KEYS, (tf.GraphKeys.UPDATE_OPS,)]
    together = [key for group in groups for key in group]
    assert len(set(together)) == len(together)


def test_moving_summary_key_is_defined_once():
    assert tfutils_keys.MOVING_SUMMARY_OPS_KEY is collections.MOVING_SUMMARY_OPS_KEY
    assert collections.MOVING_SUMMARY_OPS_KEY == "MOVING_SUMMARY_OPS"
