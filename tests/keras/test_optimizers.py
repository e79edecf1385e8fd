"""K towers train a Keras model as Keras's own ``fit`` does with one batch of all their examples."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.keras_models import LOSS, STEPS, assert_close, fitted, made, rng, shares
from tpack.compat.runtime import eager_mode
from tpack.keras.model import KerasModel
from tpack.keras.training import fit
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


def schedule():
    return keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5, staircase=True)


def without_some():
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5, epsilon=1e-5)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta"])
    return optimizer


OPTIMIZERS = {
    "sgd": lambda: "sgd",
    "adam": lambda: keras.optimizers.Adam(0.01, epsilon=1e-5),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-5),
    "adamw but for biases": without_some,
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-4),
    "lion": lambda: keras.optimizers.Lion(0.01, weight_decay=0.1),
    "schedule": lambda: keras.optimizers.SGD(schedule(), momentum=0.9, nesterov=True),
    "cosine": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.CosineDecay(0.01, 4, warmup_target=0.1, warmup_steps=2)
    ),
    "clipped by norm": lambda: keras.optimizers.SGD(0.1, clipnorm=0.05),
    "clipped by all norms": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1),
    "clipped by value": lambda: keras.optimizers.SGD(0.1, clipvalue=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_towers_make_the_steps_of_fit_with_the_whole_batch(name):
    model = KerasModel(made(), optimizer=OPTIMIZERS[name](), loss=LOSS)
    with tf.Graph().as_default():
        config = TrainConfig(model=model, dataflow=shares(2), steps_per_epoch=STEPS, max_epoch=2, monitors=[])
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))
    assert_close(model.trained_weights(), fitted(OPTIMIZERS[name]())[0])


@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_of_an_embedding_that_repeat_move_as_in_fit(name, towers):
    """Keras squares the gradient of each occurrence of a row, not that of their sum; also for all towers together."""
    with eager_mode():
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Embedding(8, 3), keras.layers.Flatten(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input([2], dtype="int32"), *layers])
        first = model.get_weights()
        rows = np.array([[0, 1], [0, 2], [3, 3], [1, 0]] * 2, np.int32)
        targets = rng.normal(size=(8, 1)).astype("float32")
        model.compile(OPTIMIZERS[name](), "mse")
        model.fit(rows, targets, batch_size=4, epochs=3, shuffle=False, verbose=0)
        wanted = model.get_weights()
        model.set_weights(first)
    fit(model, (rows, targets), towers=towers, epochs=3, batch_size=4, shuffle=False, monitors=[], verbose=0)
    assert_close(model.get_weights(), wanted)
