"""Copies of variables from one worker; over workers they are tried in ``test_sessions`` and ``test_optimizer``."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tpack.errors import GraphBuildError


@pytest.fixture
def alone() -> Any:
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.usefixtures("alone")
def test_the_hook_builds_a_copy_in_each_graph() -> None:
    hook, built = hvd.BroadcastGlobalVariablesHook(0), []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.get_variable("w", initializer=3.0)
            step = tf.train.get_or_create_global_step()
            with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
                session.run(step)
            built.append(hook.bcast_op)
    assert built[0] is not built[1]


@pytest.mark.usefixtures("alone", "graph")
def test_variables_are_returned_after_the_copy() -> None:
    first, second = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)
    copied = hvd.broadcast_([second, first], 0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(copied) == [2.0, 1.0]


@pytest.mark.usefixtures("alone")
def test_eager_variables_are_refused() -> None:
    with pytest.raises(GraphBuildError, match="does not support eager execution"):
        hvd.broadcast_global_variables(0)
