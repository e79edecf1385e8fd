"""Values from checkpoints and arrays."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError
from tpack.tf1.contrib import framework


@pytest.fixture
def saved(log_dir):
    """The path of a checkpoint of ``a/w`` [2, 3] and ``a/b`` [3]."""
    with tf.Graph().as_default(), tf.Session() as session, tf.variable_scope("a"):
        tf.get_variable("w", initializer=np.arange(6, dtype="f").reshape(2, 3))
        tf.get_variable("b", initializer=np.ones(3, "f"))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(log_dir / "model"))


def test_a_checkpoint_is_read(saved, log_dir):
    assert framework.list_variables(str(log_dir)) == [("a/b", [3]), ("a/w", [2, 3])]
    np.testing.assert_array_equal(framework.load_variable(saved, "a/b"), np.ones(3))
    assert framework.load_checkpoint(saved).has_tensor("a/w")


def test_variables_get_values(graph):
    variable = tf.get_variable("v", [2, 2])
    with tf.Session() as session:
        framework.assign_from_values_fn({"v": [[1, 2], [3, 4]]})(session)
        np.testing.assert_array_equal(session.run(variable), [[1, 2], [3, 4]])
    with pytest.raises(ConfigError, match="expected the name of a variable of the graph, with its scopes"):
        framework.assign_from_values({"w": 1})


def test_variables_and_their_parts_get_what_a_checkpoint_has(graph, saved):
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        parts = tf.get_variable("w", [2, 3])
    column = tf.get_variable("column", [3, 1])
    assign, feeds = framework.assign_from_checkpoint(saved, list(parts))
    other, more = framework.assign_from_checkpoint(saved, {"a/b": column})
    nothing, none = framework.assign_from_checkpoint(saved, {"c": column}, ignore_missing_vars=True)
    assert not none
    with tf.Session() as session:
        session.run([assign, other, nothing], {**feeds, **more})
        np.testing.assert_array_equal(session.run(tf.convert_to_tensor(parts)), [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(session.run(column), np.ones((3, 1)))


def test_what_a_checkpoint_lacks_is_said(graph, saved):
    variable = tf.get_variable("v", [4])
    with pytest.raises(CheckpointError, match="has no variable v"):
        framework.assign_from_checkpoint(saved, [variable])
    with pytest.raises(CheckpointError, match=r"v has the shape \[4\]"):
        framework.assign_from_checkpoint(saved, {"a/w": variable})
    with pytest.raises(ConfigError, match="var_list"):
        framework.assign_from_checkpoint_fn(saved, [])


def test_a_function_restores(graph, saved):
    flat, extra = tf.get_variable("flat", [6]), tf.get_variable("extra", [6])
    named = {"a/w": flat, "b": extra}
    restore = framework.assign_from_checkpoint_fn(saved, named, ignore_missing_vars=True, reshape_variables=True)
    assert framework.assign_from_checkpoint_fn(saved, [extra], ignore_missing_vars=True) is None
    with tf.Session() as session:
        restore(session)
        np.testing.assert_array_equal(session.run(flat), np.arange(6))
        assert not session.run(tf.is_variable_initialized(extra))


def test_initial_values_from_a_checkpoint(graph, saved):
    variable = tf.get_variable("b", [3])
    framework.init_from_checkpoint(saved, {"a/b": variable})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(variable), np.ones(3))
