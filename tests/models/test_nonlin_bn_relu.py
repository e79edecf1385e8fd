"""Batch normalisation and ReLU as an activation, against numpy."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import randomize_variables
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.nonlin import BNReLU
from tpack.tfutils.argscope import argscope
from tpack.tower.context import TowerContext

EPSILON = 1e-3


def test_values_are_those_of_the_batch(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 5, 5, 3))
    with TowerContext("", is_training=True), argscope(BatchNorm, epsilon=EPSILON):
        y = BNReLU(tf.constant(x))
    with tf.Session() as session:
        weights = randomize_variables(session)
        got = session.run(y)
    normalised = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + EPSILON)
    np.testing.assert_allclose(got, np.maximum(normalised * weights["bn/gamma"] + weights["bn/beta"], 0), atol=1e-9)


def test_as_an_activation_it_makes_tensorpacks_variables_and_the_layers_output(graph: Any) -> None:
    with TowerContext("", is_training=True):
        y = Conv2D("conv0", tf.zeros([1, 4, 4, 2]), 3, 3, activation=BNReLU, use_bias=False)
    assert sorted(v.op.name for v in tf.global_variables()) == [
        "conv0/W",
        "conv0/bn/beta",
        "conv0/bn/gamma",
        "conv0/bn/mean/EMA",
        "conv0/bn/variance/EMA",
    ]
    assert (y.op.type, y.name) == ("Relu", "conv0/output:0")


def test_it_may_have_a_name(graph: Any) -> None:
    with TowerContext("", is_training=True):
        BNReLU("block", tf.zeros([2, 2]))
    assert sorted(v.op.name for v in tf.trainable_variables()) == ["block/bn/beta", "block/bn/gamma"]
