"""Losses of Keras layers in REGULARIZATION_LOSSES; in whole models: tests/integration/test_keras_in_towers.py."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from tpack.errors import ConfigError
from tpack.models.regularize import add_keras_losses
from tpack.tower.context import PredictTowerContext, TrainTowerContext

KEY = tf.GraphKeys.REGULARIZATION_LOSSES


@pytest.mark.parametrize("module", [keras, tf_keras])
def test_losses_of_layers_and_models_are_collected(session8, module):
    layers, l2 = module.layers, module.regularizers.L2(0.5)
    with TrainTowerContext(""):
        dense = layers.Dense(2, kernel_regularizer=l2, kernel_initializer="ones")
        net = module.Sequential([layers.Dense(3, bias_regularizer=l2, bias_initializer="ones"), layers.Dense(1)])
        net(dense(tf.ones([1, 4])))
        losses = add_keras_losses(dense, net)
        assert tf.get_collection(KEY)[-2:] == losses
    session8.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session8.run(losses), [4.0, 1.5])


def test_a_prediction_tower_adds_nothing(graph):
    dense = keras.layers.Dense(2, kernel_regularizer="l2")
    with PredictTowerContext(""):
        dense(tf.ones([1, 4]))
        assert add_keras_losses(dense) == []
        assert tf.get_collection(KEY) == []


def test_what_is_no_layer_is_an_error(graph):
    with pytest.raises(ConfigError, match="wants Keras layers or models, got 3"):
        add_keras_losses(3)
