"""What belongs to a copied tower: variables, recorded and known by name, and constants of its own."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.copied_graphs import build
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import build_towers
from tpack.tower.context import current_tower_context

DEVICES = [f"/device:CPU:{k}" for k in range(4)]


def test_variables_of_copies_are_as_if_they_were_made(graph):
    def model(x, _):
        weight = tf.get_variable("w", [4, 2])
        steps = tf.get_variable("steps", [], trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        return tf.reduce_sum(x @ weight) * steps

    described = []
    for how in ("build", "copy"):
        result = build(model, SyncMultiGPUReplicatedBuilder(4, tower_building=how))[2]
        variables = [v for tower in result.towers for v in tower.recorder.by_name().items()]
        described.append([(name, v.name, v.device, v.trainable, v.shape, v.initializer.name) for name, v in variables])
        assert {v.handle.op.type for _, v in variables} == {"VarHandleOp"}
        assert len({id(v) for _, v in variables}) == len(variables)
    assert described[0] == described[1]


def test_constants_of_a_tower_are_those_of_the_copy(graph):
    def tower():
        own = current_tower_context()
        constant = tf.constant(np.float32(own.is_main_tower), name="own")
        own.own_constants[constant.op.name] = lambda other: np.float32(10 * len(other.name))
        return constant

    outputs = build_towers(tower, DEVICES, [True] * 4, tower_building="copy").outputs
    assert [float(tf.get_static_value(output)) for output in outputs] == [1, 0, 60, 60]


def test_gradients_through_what_a_copy_cannot_know_are_refused(graph):
    @tf.custom_gradient
    def doubled(x):
        return x * 2, lambda grad: grad * 3

    ones = [tf.ones([], name=f"one_{k}") for k in range(4)]

    def tower():
        return doubled(tf.identity(ones[0]))

    outputs = build_towers(tower, DEVICES, [True] * 4, tower_building="copy").outputs
    assert tf.gradients(outputs[1], ones[0])[0] is not None
    with pytest.raises(LookupError, match="No gradient defined"):
        tf.gradients(outputs[2], ones[0])
