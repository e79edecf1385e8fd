"""Models that Keras cannot clone, called themselves in each tower, beside Keras's ``fit``."""

import keras
import numpy as np
import pytest

from tests.helpers.keras_models import assert_close
from tpack.compat.runtime import eager_mode
from tpack.keras.training import fit

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(50, 3)).astype("float32"), rng.normal(size=(50, 3)).astype("float32")


def first_layer():
    return keras.layers.Dense(3, kernel_regularizer="l2", kernel_initializer=keras.initializers.Orthogonal(seed=1))


class Adding(keras.layers.Layer):
    """Has no configuration, moving averages, a random state and a loss of its own."""

    def __init__(self, rate):
        super().__init__()
        self.norm = keras.layers.BatchNormalization(synchronized=True)
        self.rate = rate
        self.frozen = self.add_weight(shape=[3], initializer="ones", name="frozen")
        self.frozen.trainable = False

    def call(self, x, training=False):
        self.add_loss(self.rate * keras.ops.mean(keras.ops.square(x * self.frozen)))
        return self.norm(x, training=training)


class Own(keras.Model):
    def __init__(self, make_rate):
        super().__init__()
        self.first = keras.layers.Dense(
            3, kernel_regularizer="l2", kernel_initializer=keras.initializers.Orthogonal(seed=1)
        )
        self.adding, self.own = Adding(make_rate()), keras.metrics.Mean(name="own")

    def call(self, x, training=False):
        return self.adding(self.first(x), training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        self.own.update_state(loss)
        return loss + 1.0


def sequential():
    return keras.Sequential([first_layer(), Adding(0.5)])


def adapted():
    """Return a model with an adapted layer, whose mean is an eager tensor, in front of one that cannot be cloned."""
    known = keras.layers.Normalization()
    known.adapt(X + 3)
    return keras.Sequential([known, first_layer(), Adding(0.5)])


def adapted_with_configuration():
    known = keras.layers.Normalization()
    known.adapt(X + 3)
    return keras.Sequential([known, first_layer()])


@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize(
    "make",
    [sequential, lambda: Own(lambda: 0.5), adapted, adapted_with_configuration],
    ids=["layer", "model", "adapted", "adapted, cloned"],
)
def test_a_model_without_a_configuration_is_fit(make, towers):
    with eager_mode():
        ours, wanted = make(), make()
        for model in (ours, wanted):
            model(X[:2])
            model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
        history = wanted.fit(X, Y, batch_size=12, epochs=2, shuffle=False, verbose=0).history
    trainer = fit(ours, (X, Y), towers=towers, batch_size=12, epochs=2, shuffle=False, verbose=0, monitors=[])
    with eager_mode():
        assert_close(ours.get_weights(), wanted.get_weights())
        assert_close([ours(X)], [wanted(X)])
    for name, values in history.items():
        assert trainer.history[-1]["total_loss" if name == "loss" else name] == pytest.approx(values[-1], rel=2e-5)


class Hits(keras.metrics.Metric):
    """Compares with ``==``, as Keras's own guides do, and returns its variable."""

    def __init__(self, **options):
        super().__init__(**options)
        self.hits = self.add_variable(shape=(), name="hits", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = keras.ops.cast(y_true, "int32") == keras.ops.argmax(y_pred, axis=-1)
        self.hits.assign_add(keras.ops.sum(keras.ops.cast(values, "float32")))

    def result(self):
        return self.hits


def test_tensors_are_compared_by_their_elements_in_code_of_the_user():
    labels = rng.integers(0, 3, 50).astype("int32")
    with eager_mode():
        model = keras.Sequential([keras.Input([3]), keras.layers.Softmax(), keras.layers.Dense(3, "softmax")])
        model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", metrics=[Hits(name="hits")])
        wanted = model.evaluate(X, labels, verbose=0, return_dict=True)["hits"]
    trainer = fit(model, (X, labels), towers=2, batch_size=12, verbose=0, monitors=[])
    assert trainer.history[-1]["hits"] == wanted > 0


class Noise(keras.layers.Layer):
    """Draws from the global state of Keras, which is eager since the model was called."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def call(self, x):
        return x + self.rate * keras.random.normal(keras.ops.shape(x))


class NoiseWithConfiguration(Noise):
    def __init__(self, rate=1.0, **options):
        keras.layers.Layer.__init__(self, **options)
        self.rate = rate


@pytest.mark.parametrize("layer", [Noise, NoiseWithConfiguration])
def test_random_numbers_of_the_global_state_are_others_in_each_step(layer):
    with eager_mode():
        model = keras.Sequential([keras.layers.Dense(3), layer(1.0)])
        model(X[:2])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    trainer = fit(model, (X, Y), epochs=3, batch_size=50, verbose=0, monitors=[], validation_data=(X, Y))
    assert len({row["total_loss"] for row in trainer.history}) == 3
