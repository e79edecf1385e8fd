"""Compiled sets of fetches give what `session.run` gives."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.step.fetch_plan import FetchPlan, Way, fetch_key, graph_element, is_composite

Pair = namedtuple("Pair", ["first", "second"])


@pytest.fixture
def elements(session8):
    """Two tensors, an operation and an initialised variable of the session's graph."""
    a, b = tf.constant([1.0, 2.0], name="a"), tf.constant(3, name="b")
    variable = tf.get_variable("v", initializer=4.0, use_resource=True)
    session8.run(variable.initializer)
    return a, b, tf.no_op(name="op"), variable


def same(got, expected):
    """Whether two nests are alike: types, keys and values."""
    if isinstance(expected, dict):
        return (
            type(got) is type(expected) and list(got) == list(expected) and all(same(got[k], expected[k]) for k in got)
        )
    if isinstance(expected, list | tuple):
        return type(got) is type(expected) and len(got) == len(expected) and all(map(same, got, expected))
    return type(got) is type(expected) and np.array_equal(got, expected)


NESTS = {
    "tensor": lambda a, b, op, v: a,
    "operation": lambda a, b, op, v: op,
    "variable": lambda a, b, op, v: v,
    "list": lambda a, b, op, v: [a, op, b],
    "tuple": lambda a, b, op, v: (a, (b,)),
    "namedtuple": lambda a, b, op, v: Pair(a, [op, b]),
    "dict": lambda a, b, op, v: {"y": a, "x": {1: b}},
    "ordered_dict": lambda a, b, op, v: OrderedDict([("y", b), ("x", op)]),
    "names": lambda a, b, op, v: ["a:0", "op", "b:0"],
    "duplicates": lambda a, b, op, v: [a, a, "a:0", [a, op, op], v, v],
    "empty": lambda a, b, op, v: [[], (), {}],
    "nothing": lambda a, b, op, v: [],
}


@pytest.mark.parametrize("in_caller_thread", [False, True])
@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_run_gives_what_session_run_gives(session8, elements, nest, in_caller_thread):
    fetches = nest(*elements)
    plan = FetchPlan(session8, fetches)
    plan.use(Way(in_caller_thread))
    assert plan.way.in_caller_thread is in_caller_thread
    for _ in range(2):
        assert same(plan.run(), session8.run(fetches))


def test_feeds_are_taken_in_order(session8):
    a, b = tf.placeholder(tf.float32, [None], name="fed_a"), tf.placeholder(tf.float32, [], name="fed_b")
    plan = FetchPlan(session8, {"difference": a - b}, [b, "fed_a:0"])
    np.testing.assert_array_equal(plan.run(np.float32(1), np.float32([1, 2, 3]))["difference"], [0, 1, 2])


def test_a_tensor_that_is_asked_for_twice_is_fetched_once(session8):
    count = tf.get_variable("count", initializer=0, use_resource=True)
    session8.run(count.initializer)
    increased = count.assign_add(1)
    assert FetchPlan(session8, [increased, [increased]]).run() == [1, [1]]


def test_each_run_has_containers_of_its_own(session8, elements):
    plan = FetchPlan(session8, {"list": [elements[0]]})
    plan.run()["list"].append("mine")
    assert len(plan.run()["list"]) == 1


@pytest.mark.parametrize("fetch", [None, 3, "missing:0", "missing", object()])
@pytest.mark.parametrize("as_feed", [False, True])
def test_what_is_not_in_the_graph_is_an_error(session8, elements, fetch, as_feed):
    with pytest.raises(ConfigError, match="cannot fetch or feed .* in this session"):
        FetchPlan(session8, elements[0], [fetch]) if as_feed else FetchPlan(session8, [elements[0], {"x": fetch}])


def test_a_tensor_of_another_graph_is_an_error(session8):
    with tf.Graph().as_default():
        stranger = tf.constant(0)
    with pytest.raises(ConfigError, match="cannot fetch or feed"):
        FetchPlan(session8, stranger)


def test_graph_element_is_one_object_for_all_that_mean_it(graph):
    tensor = tf.constant(0, name="t")
    assert graph_element(graph, tensor) is graph_element(graph, "t:0")
    assert graph_element(graph, "t") is tensor.op
    variable = tf.get_variable("v", [], use_resource=True)
    assert graph_element(graph, variable) is graph_element(graph, variable)


def test_fetch_key_is_equal_for_equal_structures_only(elements):
    a, b, op, variable = elements
    nests = [a, b, op, variable, [a], (a,), [[a]], [a, b], [b, a], Pair(a, b), (a, b), {"x": a}, {"y": a}, {"x": [a]}]
    nests += ["a:0", "b:0", ["a:0"], [], (), {}, OrderedDict(x=a), {"x": a, "y": b}, {"y": b, "x": a}]
    keys = [fetch_key(nest) for nest in nests]
    assert len(set(keys)) == len(nests)
    assert fetch_key([a, {"x": (b, "".join(["a", ":0"]))}]) == fetch_key([a, {"x": (b, "a:0")}])


def test_is_composite_finds_sparse_tensors_in_a_nest(graph):
    tensor = tf.constant([1])
    slices = tf.IndexedSlices(tensor, tensor)
    sparse = tf.SparseTensor(tf.constant([[0]], tf.int64), tensor, tf.constant([1], tf.int64))
    ragged = tf.ragged.constant([[1], [2, 3]])
    for composite in (slices, sparse, ragged):
        assert all(map(is_composite, [composite, [tensor, composite], (composite,), {"x": [composite]}]))
    value = tf.SparseTensorValue([[0]], [1], [1])
    assert not any(map(is_composite, [tensor, tensor.op, "name", [tensor], {"x": (tensor,)}, [], value]))


def test_what_is_fed_can_be_fetched(session8):
    fed, other = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [])
    plan = FetchPlan(session8, [fed, {"sum": fed + other}, other], [fed, other])
    value = np.array([1, 2], "float32")
    first, second, third = plan.run(value, np.float32(3))
    assert first is value
    np.testing.assert_array_equal(second["sum"], [4, 5])
    assert third == 3
    assert FetchPlan(session8, fed, [fed]).run(value) is value
