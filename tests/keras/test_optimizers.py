"""K towers train a Keras model as Keras's own ``fit`` does with one batch of all their examples."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.keras_models import LOSS, STEPS, assert_close, fitted, made, shares
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


@pytest.mark.parametrize("repeats", [False, True])
def test_rows_of_an_embedding_get_what_keras_gives_a_dense_gradient(repeats):
    """With rows that occur several times, Keras's sparse step is another: it squares their gradients one by one."""

    def make(dense):
        first = (
            keras.layers.Dense(2, use_bias=False, kernel_initializer="ones")
            if dense
            else keras.layers.Embedding(8, 2, embeddings_initializer="ones")
        )
        last = keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=1))
        shape = {"shape": [2, 8]} if dense else {"shape": [2], "dtype": "int32"}
        return keras.Sequential([keras.Input(**shape), first, keras.layers.Flatten(), last])

    rows = np.array([[0, 1], [2, 3], [0, 2] if repeats else [4, 5], [1, 1] if repeats else [6, 7]], np.int32)
    targets = np.array([[1.0], [-1.0], [0.5], [2.0]], np.float32)
    with eager_mode():
        dense, sparse = make(True), make(False)
        for model in (dense, sparse):
            model.compile(keras.optimizers.Adam(0.01), "mse")
        dense.fit(np.eye(8, dtype=np.float32)[rows], targets, batch_size=4, epochs=3, shuffle=False, verbose=0)
    fit(sparse, (rows, targets), epochs=3, batch_size=4, monitors=[], callbacks=[])
    assert_close(sparse.get_weights(), dense.get_weights())
