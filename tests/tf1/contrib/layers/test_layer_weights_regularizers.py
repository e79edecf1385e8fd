"""Costs for the size of weights."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import run
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers

W = np.array([[1.0, -2.0], [3.0, -4.0]], "f")


def test_costs(graph):
    regularizers = [
        layers.l1_regularizer(0.1),
        layers.l2_regularizer(0.1),
        layers.l1_l2_regularizer(0.1, 0.2),
        layers.l1_l2_regularizer(0.0, 0.2),
        layers.l1_l2_regularizer(0.1, 0.0),
        layers.sum_regularizer([None, layers.l1_regularizer(0.1), layers.l1_regularizer(0.0)]),
    ]
    costs = run([regularizer(tf.constant(W)) for regularizer in regularizers])
    np.testing.assert_allclose(costs, [1.0, 1.5, 4.0, 3.0, 1.0, 1.0], rtol=1e-6)
    assert layers.l1_regularizer(0.0)(W) is layers.sum_regularizer([None]) is None
    assert layers.sum_regularizer([layers.l1_regularizer(0.0)])(W) is None


def test_names(graph):
    with tf.variable_scope("v"):
        assert layers.l2_regularizer(0.1, scope="mine")(tf.constant(W)).op.name == "v/mine"
        assert layers.l1_regularizer(0.1)(tf.constant(W)).op.name == "v/l1_regularizer"


def test_the_cost_of_several(graph):
    tf.add_to_collection(tf.GraphKeys.WEIGHTS, tf.constant(W))
    total = layers.apply_regularization(layers.l2_regularizer(1.0))
    assert tf.losses.get_regularization_losses() == [total]
    assert run([total, layers.apply_regularization(layers.l1_regularizer(0.0), [W])]) == [15.0, 0.0]
    with pytest.raises(ConfigError, match="expected a scalar"):
        layers.apply_regularization(tf.abs, [tf.constant(W)])
    with pytest.raises(ConfigError, match="no weights"):
        layers.apply_regularization(tf.abs, [])


def test_scales():
    with pytest.raises(ConfigError, match="expected a float"):
        layers.l2_regularizer(1)
    with pytest.raises(ConfigError, match="at least 0"):
        layers.l1_l2_regularizer(0.1, -1.0)
