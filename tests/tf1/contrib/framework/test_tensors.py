"""Shapes that are wanted, conditions that may be known, Python functions in the graph."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import framework


def test_a_shape_is_known_or_checked(graph):
    known = tf.zeros([2, 3])
    assert framework.with_shape([2, 3], known) is known
    assert framework.with_same_shape(known, tf.zeros([2, 3])).shape == [2, 3]
    with pytest.raises(ConfigError, match=r"has the shape \(2, 3\), expected"):
        framework.with_shape([2, 4], known)
    with pytest.raises(ConfigError, match="with_shape got the shape .*: expected known sizes"):
        framework.with_shape([2, None], known)
    half, none = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32)
    wanted = tf.placeholder(tf.int32, [None])
    checked = [framework.with_shape([2, 3], half), framework.with_shape(wanted, none)]
    assert checked[0].shape == [2, 3]
    with tf.Session() as session:
        assert session.run(checked, {half: np.ones((2, 3)), none: np.ones((4, 1)), wanted: [4, 1]})[1].shape == (4, 1)
        for fed in ({half: np.ones((1, 3))}, {none: np.ones(4), wanted: [4, 1]}):
            with pytest.raises(tf.errors.InvalidArgumentError, match="wrong shape"):
                session.run(checked[0] if half in fed else checked[1], fed)


def test_scalars_and_sums(graph):
    total = framework.reduce_sum_n([tf.ones([3]), tf.fill([], 2.0)])
    with tf.Session() as session:
        assert session.run(total) == 5
        assert session.run(framework.assert_scalar_int(tf.constant(3))) == 3
    with pytest.raises(WrongTypeError, match="an integer"):
        framework.assert_scalar_int(tf.zeros([]))
    with pytest.raises(ConfigError, match=r"tensors=\[\]: expected at least one"):
        framework.reduce_sum_n([])


def test_a_last_dimension_of_one_is_dropped(graph):
    one, column, unknown = tf.zeros([2]), tf.zeros([2, 1]), tf.placeholder(tf.float32)
    for predictions, labels in ((one, column), (column, one), (one, one)):
        assert [t.shape.rank for t in framework.remove_squeezable_dimensions(predictions, labels)] == [1, 1]
    assert framework.remove_squeezable_dimensions(unknown, one)[0] is unknown


def test_a_condition_that_is_known_builds_one_side(graph):
    assert framework.smart_cond(tf.constant(True), lambda: 1, lambda: 2) == 1
    assert framework.smart_cond(0, lambda: 1, lambda: 2) == 2
    assert framework.smart_constant_value(np.bool_(False)) is False
    flag = tf.placeholder(tf.bool, [])
    assert framework.smart_constant_value(flag) is None
    chosen = framework.smart_cond(flag, lambda: tf.constant(1), lambda: tf.constant(2))
    with tf.Session() as session:
        assert [session.run(chosen, {flag: value}) for value in (True, False)] == [1, 2]
    with pytest.raises(WrongTypeError, match="a condition"):
        framework.smart_constant_value("yes")
    with pytest.raises(WrongTypeError, match="true_fn"):
        framework.smart_cond(True, 1, 2)


def test_python_functions(graph):
    def both(a, b=None):
        return {"sum": a + b, "difference": a - b}

    types = {"sum": tf.float32, "difference": tf.float32}
    results = framework.py_func(both, (tf.constant(3.0),), {"b": tf.constant(1.0)}, types)
    shaped = framework.py_func(lambda a: a, [tf.ones([2])], output_types=tf.float32, output_shapes=tf.TensorShape([2]))
    assert shaped.shape == [2]
    with tf.Session() as session:
        assert session.run(results) == {"sum": 4.0, "difference": 2.0}
    with pytest.raises(ConfigError, match="output_types"):
        framework.py_func(both)


def test_graphs(graph):
    placeholder = tf.placeholder(tf.float32, name="x")
    with tf.name_scope("a"):
        assert framework.get_name_scope() == "a"
    assert [tensor.name for tensor in framework.get_placeholders(graph)] == ["x:0"]
    assert framework.get_graph_from_inputs([placeholder]) is graph
    with pytest.raises(ConfigError, match="in one graph"):
        framework.get_graph_from_inputs([placeholder], tf.Graph())
