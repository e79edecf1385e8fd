"""K towers train a Keras model as Keras's own ``fit`` does with one batch of all their examples."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.compat import eager_mode
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.keras.model import KerasModel
from tpack.keras.training import fit
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

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


@pytest.mark.parametrize(
    "make", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(4), lambda: SyncMultiGPUTrainerParameterServer(3)]
)
def test_any_trainer_does_and_tells_of_it(make, tmp_path):
    with tf.Graph().as_default():
        trainer = make()
        num_towers = len(trainer.devices)
        model = KerasModel(build, optimizer="adam", loss=LOSS, metrics=["accuracy"])
        config = TrainConfig(model=model, dataflow=shares(num_towers), steps_per_epoch=1, max_epoch=1, monitors=[])
        launch_train_with_config(config, trainer)
    # The first step's statistics are those of the model before it has learned anything, on all of its examples.
    with eager_mode():
        before = made()
        before.compile("sgd", LOSS, metrics=["accuracy"])
        wanted = before.train_on_batch(X[:ROWS], Y[:ROWS], return_dict=True)
    assert trainer.monitors.get_latest("total_loss") == pytest.approx(float(wanted["loss"]), rel=1e-5)
    assert trainer.monitors.get_latest("accuracy") == pytest.approx(float(wanted["accuracy"]), rel=1e-5)
    assert list(trainer.statistics) == ["total_loss", "accuracy"]
    trainer.export_keras(tmp_path / "model.keras")
    with eager_mode():
        assert_close(keras.models.load_model(tmp_path / "model.keras").get_weights(), model.trained_weights())


def test_a_compiled_model_is_fit_in_one_line_and_evaluated_as_keras_does():
    with eager_mode():
        model = made()
        metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2"), kept_metric()]
        model.compile("sgd", LOSS, metrics=metrics)
    trainer = fit(model, shares(2), towers=2, epochs=2, steps_per_epoch=STEPS, monitors=[], validation_data=(X, Y))
    weights, wanted = fitted("sgd", metrics=["accuracy", kept_metric()])
    assert_close(model.get_weights(), weights)
    got = trainer.history[-1]
    assert got["validation_total_loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    assert got["validation_accuracy"] == pytest.approx(wanted["accuracy"])
    assert got["validation_kept"] == pytest.approx(wanted["kept"], rel=1e-4)


def kept_metric():
    return keras.metrics.MeanIoU(num_classes=3, sparse_y_pred=False, name="kept")


def test_arrays_are_fit_in_the_batches_of_keras():
    with eager_mode():
        model = Unbuilt()
        model.compile("adam", LOSS)
    trainer = fit(model, (X.astype("float64"), Y.astype("int64")), epochs=2, batch_size=12, monitors=[])
    assert trainer.global_step == 6
    assert trainer.monitors.get_latest("total_loss") > 0


class Unbuilt(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.last = keras.layers.Dense(3, activation="softmax")

    def call(self, x):
        return self.last(x)


def test_what_cannot_be_fit_is_refused():
    with eager_mode():
        model, compiled = made(), made()
        compiled.compile("sgd", LOSS)
    for arguments, message in [
        ((model, (X, Y)), "was not compiled"),
        ((3, (X, Y)), "wanted a compiled Keras model, a KerasModel or a ModelDesc"),
        ((compiled, X), r"got 1 array\(s\)"),
    ]:
        with pytest.raises(ConfigError, match=message):
            fit(*arguments)
    with pytest.raises(ConfigError, match="only in eager training"):
        fit(compiled, (X, Y), callbacks=[keras.callbacks.Callback()])
    with pytest.raises(ConfigError, match="needs an optimizer and a loss"):
        KerasModel(made())
    with pytest.raises(ConfigError, match="wants a trainer of a KerasModel, and this one has none yet"):
        SimpleTrainer().export_keras("model.keras")
    with pytest.raises(ConfigError, match="was not trained yet"):
        KerasModel(compiled).export_keras("model.keras")
