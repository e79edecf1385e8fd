"""Results that are remembered."""

import gc
import weakref

import tensorflow.compat.v1 as tf

from tpack.utils.argtools import graph_memoized, memoized, memoized_ignoreargs, memoized_method


class Thing:
    """Counts the calls of its method."""

    def __init__(self):
        self.calls = 0

    @memoized_method
    def square(self, x, *, plus=0):
        self.calls += 1
        return x * x + plus


def test_memoized_calls_once_for_each_argument():
    calls = []

    @memoized
    def square(x):
        calls.append(x)
        return x * x

    assert [square(k) for k in (2, 3, 2)] == [4, 9, 4]
    assert calls == [2, 3]


def test_memoized_method_calls_once_for_each_object_and_arguments():
    first, second = Thing(), Thing()
    assert [first.square(2), first.square(2), first.square(2, plus=1), second.square(2)] == [4, 4, 5, 4]
    assert (first.calls, second.calls) == (2, 1)


def test_memoized_method_does_not_keep_its_object_alive():
    thing = Thing()
    thing.square(2)
    reference = weakref.ref(thing)
    del thing
    gc.collect()
    assert reference() is None


def test_ignored_arguments_do_not_count():
    calls = []

    @memoized_ignoreargs
    def first(*args, **kwargs):
        calls.append((args, kwargs))
        return len(calls)

    assert [first(1), first([2]), first(x=3)] == [1, 1, 1]
    assert calls == [((1,), {})]


def test_result_may_be_none():
    calls = []
    nothing = memoized_ignoreargs(lambda: calls.append(1))
    assert (nothing(), nothing(), len(calls)) == (None, None, 1)


def test_each_graph_has_its_own_results():
    @graph_memoized
    def constant(value, *, name="c"):
        return tf.constant(value, name=name)

    @graph_memoized
    def other(value):
        return tf.constant(-value)

    with tf.Graph().as_default() as first:
        a = constant(1)
        assert constant(1) is a
        assert constant(1, name="d") is not a
        assert other(1) is not a
    with tf.Graph().as_default():
        assert constant(1).graph is not first
    with first.as_default():
        assert constant(1) is a
    reference = weakref.ref(first)
    del first, a
    gc.collect()
    assert reference() is None
