"""A tower's part of collections; tests/tower/test_context.py and test_rendezvous.py hold the towers that use it."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.tower import collections as collections_module
from tpack.tower.collections import KEEP_ALL, KEEP_UPDATES, KEEP_VARIABLES, TowerCollections

KEYS = tf.GraphKeys


def add(*names, key="things"):
    for name in names:
        tf.add_to_collection(key, name)


@pytest.fixture
def tower(graph):
    add("before", key=KEYS.LOSSES)
    add("before")
    collections = TowerCollections(KEEP_UPDATES.with_own_variables())
    assert not collections.is_open
    collections.open()
    return collections


def test_own_collections_are_empty_and_others_hold_what_was_there(tower):
    assert tower.is_open
    assert (tf.get_collection(KEYS.LOSSES), tf.get_collection("things")) == ([], ["before"])
    add("own")
    assert (tower.added("things"), tower.visible("things")) == (["own"], ["before", "own"])


def test_pausing_leaves_no_trace_and_resuming_finds_what_came(tower):
    add("own", "own too")
    add("loss", key=KEYS.LOSSES)
    tower.pause()
    assert (tf.get_collection("things"), tf.get_collection(KEYS.LOSSES)) == (["before"], ["before"])
    add("of another")
    tower.resume()
    assert tf.get_collection("things") == ["before", "of another", "own", "own too"]
    assert tf.get_collection(KEYS.LOSSES) == ["loss"]
    assert tower.added("things") == ["own", "own too"]
    tower.close()
    assert not tower.is_open
    assert (tower.added("things"), tower.added(KEYS.LOSSES)) == (["own", "own too"], ["loss"])
    assert tf.get_collection(KEYS.LOSSES) == ["before"]


def test_others_items_that_go_or_come_back_in_a_pause_are_not_the_tower_s_own(tower):
    tower.pause()
    add("passing")
    tower.resume()
    held = list(tf.get_collection("things"))
    tower.pause()
    tf.get_collection_ref("things").remove("passing")
    tower.resume()
    tf.get_collection_ref("things")[:] = held
    assert tower.added("things") == []
    assert tower.visible("things") == ["before"]
    tower.close()
    assert tf.get_collection("things") == ["before"]


def test_shown_shows_what_is_kept_and_keeps_what_the_block_adds(tower):
    for key in ("things", KEYS.LOSSES, KEYS.SUMMARIES, KEYS.UPDATE_OPS):
        add("own", key=key)
    tower.pause()
    with tower.shown():
        assert tf.get_collection("things") == ["before", "own"]
        assert tf.get_collection(KEYS.UPDATE_OPS) == ["own"]
        assert (tf.get_collection(KEYS.LOSSES), tf.get_collection(KEYS.SUMMARIES)) == (["before"], [])
        add("of all")
    assert tf.get_collection("things") == ["before", "of all"]
    tower.resume()
    assert tower.added("things") == ["own"]


def test_what_the_main_training_tower_adds_is_shown_and_kept(graph):
    tower = TowerCollections(KEEP_ALL)
    tower.open()
    for key in (KEYS.LOSSES, KEYS.SUMMARIES):
        add("own", key=key)
    tower.pause()
    with tower.shown():
        assert tf.get_collection(KEYS.LOSSES) == tf.get_collection(KEYS.SUMMARIES) == ["own"]
    tower.resume()
    tower.close()
    assert tf.get_collection(KEYS.LOSSES) == tf.get_collection(KEYS.SUMMARIES) == ["own"]


def test_what_a_graph_has_one_of_stays(tower):
    add("store", key=("__store",))
    tower.pause()
    assert tf.get_collection(("__store",)) == ["store"]


@pytest.mark.parametrize(("policy", "keeps_updates"), [(KEEP_UPDATES, True), (KEEP_VARIABLES, False)])
def test_update_operations_of_a_tower_are_kept_if_its_policy_says_so(graph, policy, keeps_updates):
    assert policy.keeps_updates == keeps_updates
    collections = TowerCollections(policy)
    collections.open()
    for key in (KEYS.UPDATE_OPS, KEYS.SUMMARIES, KEYS.LOSSES):
        add("own", key=key)
    collections.close()
    assert tf.get_collection(KEYS.UPDATE_OPS) == (["own"] if keeps_updates else [])
    assert (tf.get_collection(KEYS.SUMMARIES), tf.get_collection(KEYS.LOSSES)) == ([], [])


@pytest.mark.parametrize("is_training", [True, False])
def test_summaries_of_plain_tensorflow_are_dropped_with_a_reason(graph, monkeypatch, is_training):
    # Another test may have been the first.
    monkeypatch.setattr(collections_module, "_DROPPED", f"dropped {is_training}")
    with captured_log() as lines:
        for is_main in (is_training, False, False):
            collections = TowerCollections(KEEP_ALL if is_main else KEEP_VARIABLES)
            collections.open()
            tf.summary.scalar("plain", tf.constant(1.0))
            said_before = list(lines)
            collections.close()
            if is_main:
                assert lines == said_before == []
    assert lines == [f"dropped {is_training}"]
    assert len(tf.get_collection(KEYS.SUMMARIES)) == is_training
