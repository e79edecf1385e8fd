"""Activations with variables or of another shape, against numpy."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import assert_layer, randomize_variables
from tpack.errors import ConfigError
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.fc import FullyConnected
from tpack.models.nonlin import BNReLU, Maxout, PReLU
from tpack.tfutils.argscope import argscope
from tpack.tower.context import TowerContext


def test_prelu_values_and_gradients(rng: np.random.Generator) -> None:
    def oracle(x: np.ndarray, variables: Any) -> np.ndarray:
        return np.where(x > 0, x, x * variables["prelu/alpha"])

    assert_layer(lambda x, _: PReLU("prelu", x), rng.normal(size=(3, 4, 2)), oracle)


def test_prelu_is_an_activation_and_begins_at_init(graph: Any) -> None:
    y = FullyConnected("fc", -tf.ones([1, 2]), 3, tf.nn.relu, kernel_initializer=tf.ones_initializer())
    z = PReLU("p", -tf.ones([2]), init=0.25)
    act = FullyConnected("fc1", y, 3, activation=PReLU)
    assert {v.op.name: v.shape.as_list() for v in tf.global_variables()}.items() >= {
        "p/alpha": [],
        "fc1/alpha": [],
    }.items()
    assert z.variables.alpha.op.name == "p/alpha"
    assert (act.name, act.op.type) == ("fc1/output:0", "Sub")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(z).tolist() == [-0.25, -0.25]


@pytest.mark.parametrize("shape", [(3, 6), (2, 3, 4, 6)])
def test_maxout_values_and_gradients(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    def oracle(x: np.ndarray, _: Any) -> np.ndarray:
        return np.maximum(np.maximum(x[..., ::3], x[..., 1::3]), x[..., 2::3])

    assert_layer(lambda x, _: Maxout(x, 3), rng.normal(size=shape), oracle)


def test_maxout_takes_a_name_and_unknown_sizes(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None, 4, 6])
    y = Maxout("m", x, num_unit=2)
    assert y.shape.as_list() == [None, None, 4, 3]
    assert y.op.name == "m/output"
    with tf.Session() as session:
        assert session.run(y, {x: np.zeros([1, 5, 4, 6])}).shape == (1, 5, 4, 3)


def test_maxout_names_what_it_wants(graph: Any) -> None:
    with pytest.raises(ConfigError, match="Maxout 'm' got an input of .*: expected 2 or 4 dimensions"):
        Maxout("m", tf.zeros([1, 2, 3]), 2)
    with pytest.raises(ConfigError, match="Maxout 'm' got an input .*: expected a known number of channels"):
        Maxout("m", tf.placeholder(tf.float32, [1, None]), 2)
    for num_unit in (0, 4):
        with pytest.raises(ConfigError, match=f"got num_unit={num_unit}: expected a divisor of 6 channels"):
            Maxout("m", tf.zeros([1, 6]), num_unit)


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
