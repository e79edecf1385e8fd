"""A small Keras model, its data, and what Keras itself makes of them."""

import keras
import numpy as np

from tpack.compat.runtime import eager_mode
from tpack.dataflow.sources import DataFromList

STEPS, ROWS = 3, 12
rng = np.random.default_rng(0)
X = rng.normal(size=(STEPS * ROWS, 4)).astype("float32")
Y = rng.integers(0, 3, STEPS * ROWS).astype("int32")
LOSS = "sparse_categorical_crossentropy"


def build():
    """Return a model with batch normalisation over all towers, and a regularizer."""
    first, second = (keras.initializers.RandomNormal(stddev=0.5, seed=seed) for seed in (1, 2))
    regularizer = keras.regularizers.L2(0.01)
    return keras.Sequential(
        [
            keras.Input([4], name="x"),
            keras.layers.Dense(6, activation="tanh", kernel_regularizer=regularizer, kernel_initializer=first),
            keras.layers.BatchNormalization(momentum=0.5, synchronized=True),
            keras.layers.Dense(3, activation="softmax", kernel_initializer=second),
        ]
    )


def made():
    """Return one that is there already."""
    with eager_mode():
        return build()


def shares(num_towers):
    """Return batches for towers, in the order of the examples."""
    parts = zip(np.split(X, STEPS * num_towers), np.split(Y, STEPS * num_towers), strict=True)
    return DataFromList([list(part) for part in parts], shuffle=False)


def fitted(optimizer, epochs=2, metrics=()):
    """Return the weights and the evaluation of Keras itself."""
    with eager_mode():
        model = made()
        model.compile(optimizer, LOSS, metrics=list(metrics))
        model.fit(X, Y, batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0)
        return model.get_weights(), model.evaluate(X, Y, verbose=0, batch_size=10, return_dict=True)


def assert_close(got, wanted):
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
