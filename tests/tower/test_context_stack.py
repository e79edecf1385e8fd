"""The stack of towers: one for each graph and each thread."""

import gc
import threading
import weakref

import tensorflow.compat.v1 as tf

from tpack.tower.context import context_stack


def test_stack_belongs_to_the_default_graph(graph):
    context_stack().append("outer")
    with tf.Graph().as_default():
        assert context_stack() == []
        context_stack().append("inner")
    assert context_stack() == ["outer"]


def test_stack_belongs_to_the_thread(graph):
    context_stack().append("here")
    seen = []

    def look():
        with graph.as_default():
            seen.append(list(context_stack()))
            context_stack().append("there")

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [[]]
    assert context_stack() == ["here"]


def test_stack_does_not_keep_a_graph_alive():
    with tf.Graph().as_default() as short_lived:
        assert context_stack() == []
    reference = weakref.ref(short_lived)
    del short_lived
    gc.collect()
    assert reference() is None
