"""State that tpack keeps for a graph."""

import gc
import threading
import weakref

import tensorflow.compat.v1 as tf

from tpack.tower.collections import backup_collection
from tpack.tower.per_graph import PerGraph, new_graph


class Value:
    """Something that can be referred to weakly."""


def test_each_graph_has_a_value_of_its_own_that_stays(graph):
    names, others = PerGraph(list), PerGraph(list)
    names.here().append("a")
    with tf.Graph().as_default() as second:
        assert names.here() == []
        names.here().append("b")
    assert names.here() == names.of(graph) == ["a"]
    assert names.of(second) == ["b"]
    assert others.here() == []


def test_code_of_a_condition_sees_the_value_of_the_graph_around_it(graph):
    names, seen = PerGraph(list), []

    def branch():
        names.here().append("inside")
        seen.append(names.of(tf.get_default_graph()))
        return tf.constant(1.0)

    tf.compat.v2.function(branch).get_concrete_function()
    assert names.here() == ["inside"]
    assert seen == [[]]


def test_a_value_that_refers_to_its_graph_goes_with_it():
    values = PerGraph(Value)
    with tf.Graph().as_default() as graph:
        values.here().graph = graph
        values.here().tensor = tf.constant(1.0)
    graph_reference, value_reference = weakref.ref(graph), weakref.ref(values.of(graph))
    del graph
    gc.collect()
    assert graph_reference() is None
    assert value_reference() is None


def test_a_value_goes_with_whoever_kept_it(graph):
    values = PerGraph(Value)
    reference = weakref.ref(values.here())
    del values
    gc.collect()
    assert reference() is None


def test_values_are_in_no_collection_and_in_no_meta_graph(graph):
    PerGraph(list).here()
    names = PerGraph(list)
    names.here().append("kept")
    tf.constant(1.0)
    assert backup_collection() == {}
    assert not tf.train.export_meta_graph().collection_def


def test_a_value_can_be_another_one_in_each_thread(graph):
    values, seen = PerGraph(threading.local), []
    values.here().name = "main"

    def look():
        with graph.as_default():
            seen.append(hasattr(values.here(), "name"))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False]
    assert values.here().name == "main"


def test_a_new_graph_has_the_seed_of_the_graph_that_was_current(graph):
    assert new_graph().seed is None
    tf.set_random_seed(4)
    assert new_graph().seed == 4
    assert new_graph() is not new_graph()
