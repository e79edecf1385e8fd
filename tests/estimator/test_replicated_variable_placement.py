"""Shared variables go round the devices; nothing but a variable moves the turn on."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tpack.errors import ConfigError
from tpack.estimator.replicated import RoundRobin, SharedVariablesSetter


def test_variables_take_turns_and_operations_do_not(session8):
    turns = RoundRobin([f"/device:CPU:{k}" for k in (1, 2, 3)])
    variables = []
    for tower in (0, 1):
        with tf.device(SharedVariablesSetter(f"/device:CPU:{tower + 4}", turns)):
            for name in "ab":
                tf.constant(1.0) + tf.constant(2.0)
                variables.append(tf.get_variable(f"{name}{tower}", [], use_resource=True))
            total = tf.add(variables[-1], tf.placeholder_with_default(1.0, []), name=f"total{tower}")
    session8.run(tf.global_variables_initializer())
    placed = placed_devices(session8, [total, *(v.initializer for v in variables)])
    assert [placed[v.op.name] for v in variables] == [f"/device:CPU:{k}" for k in (1, 2, 3, 1)]
    assert placed["total1"] == "/device:CPU:5"
    assert turns.num_given == 4


def test_what_was_asked_for_stays(graph):
    setter = SharedVariablesSetter("/device:CPU:4", RoundRobin(["/device:CPU:1"]))
    with tf.device(setter):
        with tf.device("/device:CPU:6"):
            assert tf.constant(1).device == "/device:CPU:6"
            assert tf.get_variable("v", [], use_resource=True).device == "/device:CPU:6"
        with tf.device("/job:worker"):
            assert tf.constant(1).device == "/job:worker/device:CPU:4"
            assert tf.get_variable("w", [], use_resource=True).device == "/job:worker/device:CPU:1"


def test_no_device_is_refused():
    with pytest.raises(ConfigError, match="RoundRobin got no devices"):
        RoundRobin([])
