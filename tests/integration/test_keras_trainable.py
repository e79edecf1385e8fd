"""``trainable=False`` of Keras on layers, models and variables, in all that trains: their values stay."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

import tpack
from tests.helpers.keras_models import assert_close
from tpack.compat.runtime import eager_mode
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import GraphBuildError
from tpack.estimator.estimator import Estimator
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.graph_builder.model_desc import ModelDesc
from tpack.keras.model import KerasModel
from tpack.keras.training import fit
from tpack.models.regularize import add_keras_losses
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

STEPS, ROWS, LOSS = 3, 12, "sparse_categorical_crossentropy"
rng = np.random.default_rng(0)
X = rng.normal(size=(STEPS * ROWS, 4)).astype("float32")
Y = rng.integers(0, 3, STEPS * ROWS).astype("int32")
TRAINERS = {
    "one": SimpleTrainer,
    "replicated": lambda: SyncMultiGPUTrainerReplicated(3),
    "parameter server": lambda: SyncMultiGPUTrainerParameterServer(2),
}


def shares(num_towers):
    parts = zip(np.split(X, STEPS * num_towers), np.split(Y, STEPS * num_towers), strict=True)
    return DataFromList([list(part) for part in parts], shuffle=False)


def network():
    """Return a classifier on a base with batch normalisation, whose statistics are not those of the data."""
    base = keras.Sequential(
        [
            keras.Input([4]),
            keras.layers.Dense(6, activation="tanh", kernel_initializer=keras.initializers.RandomNormal(seed=1)),
            keras.layers.BatchNormalization(
                name="norm",
                synchronized=True,
                moving_mean_initializer=keras.initializers.RandomNormal(seed=2),
                gamma_initializer=keras.initializers.RandomUniform(0.5, 1.5, seed=3),
            ),
            keras.layers.Dense(5, name="last", kernel_initializer=keras.initializers.RandomNormal(seed=4)),
        ],
        name="base",
    )
    inputs = keras.Input([4])
    head = keras.layers.Dense(3, activation="softmax", kernel_initializer=keras.initializers.RandomNormal(seed=5))
    return keras.Model(inputs, head(base(inputs)))


def freeze_base(model):
    model.get_layer("base").trainable = False


def freeze_layer(model):
    model.get_layer("base").layers[0].trainable = False


def freeze_norm(model):
    model.get_layer("base").get_layer("norm").trainable = False


def freeze_variable(model):
    model.get_layer("base").get_layer("last").kernel.trainable = False


def thaw_last(model):
    freeze_base(model)
    model.get_layer("base").get_layer("last").trainable = True


def frozen(freeze):
    with eager_mode():
        model = network()
        freeze(model)
        return model


def keras_fit(model):
    with eager_mode():
        model.compile("sgd", LOSS)
        model.fit(X, Y, batch_size=ROWS, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()


@pytest.mark.parametrize("towers", [1, 3])
@pytest.mark.parametrize("freeze", [freeze_base, freeze_layer, freeze_norm, freeze_variable, thaw_last])
def test_fit_trains_what_fit_of_keras_trains(freeze, towers):
    model = frozen(freeze)
    before = model.get_weights()
    model.compile("sgd", LOSS)
    fit(model, shares(towers), towers=towers, epochs=2, steps_per_epoch=STEPS, monitors=[])
    assert_close(model.get_weights(), keras_fit(frozen(freeze)))
    kept = [not variable.trainable for variable in model.weights]
    is_moving = ["moving" in variable.path for variable in model.weights]
    for number, (now, first) in enumerate(zip(model.get_weights(), before, strict=True)):
        if kept[number] and not is_moving[number]:
            np.testing.assert_array_equal(now, first)
    assert any(kept[number] and not is_moving[number] for number in range(len(kept)))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_function_freezes_what_it_makes_in_each_tower_and_in_copies(trainer):
    def make():
        model = network()
        freeze_base(model)
        return model

    desc = KerasModel(make, optimizer="sgd", loss=LOSS)
    with tf.Graph().as_default():
        trainer = TRAINERS[trainer]()
        config = TrainConfig(
            model=desc, dataflow=shares(len(trainer.devices)), steps_per_epoch=STEPS, max_epoch=2, monitors=[]
        )
        launch_train_with_config(config, trainer)
        names = [variable.op.name for variable in tf.trainable_variables()]
        model_variables = {variable.op.name for variable in tf.model_variables()}
    assert len(names) == 2
    assert all(any(name.endswith(part) for name in model_variables) for part in ("norm/gamma", "last/kernel"))
    assert_close(desc.trained_weights(), keras_fit(frozen(freeze_base)))


def test_a_change_between_two_fits_counts():
    model, wanted = frozen(freeze_base), frozen(freeze_base)
    for change in (lambda each: None, thaw_last, freeze_layer):
        for each in (model, wanted):
            change(each)
        model.compile("sgd", LOSS)
        fit(model, shares(1), epochs=2, steps_per_epoch=STEPS, monitors=[])
        assert_close(model.get_weights(), keras_fit(wanted))


def test_a_model_frozen_as_a_whole_cannot_be_trained():
    model = frozen(lambda model: setattr(model, "trainable", False))
    model.compile("sgd", LOSS)
    with pytest.raises(GraphBuildError, match="all 8 of Keras layers are not trainable; use layer.trainable = True"):
        fit(model, (X, Y), monitors=[])


def logits_of(module, x, *, training):
    """Return the output of a frozen layer with batch normalisation, and of one that is trained."""
    regularizer = module.regularizers.L2(0.1)
    base = module.layers.Dense(6, name="frozen", kernel_regularizer=regularizer)
    norm = module.layers.BatchNormalization(name="norm")
    hidden = norm(base(x), training=training)
    base.trainable = norm.trainable = False
    hidden = norm(base(x), training=training)
    head = module.layers.Dense(3, name="head")
    logits = head(hidden)
    add_keras_losses(base, head)
    return logits


class Desc(ModelDesc):
    def __init__(self, module):
        self._module = module

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]

    def build_graph(self, x, y):
        logits = logits_of(self._module, x, training=self.training)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(0.1)


class Changes(tpack.Callback):
    """The variables that training changed."""

    def _before_train(self):
        self._first = self._values()

    def _trigger_epoch(self):
        self.names = {name for name, value in self._values().items() if not np.array_equal(value, self._first[name])}

    def _values(self):
        names = ("frozen/", "norm/", "head/")
        variables = {v.op.name: v for v in tf.global_variables() if any(name in v.op.name for name in names)}
        return self.trainer.sess.run({name: v for name, v in variables.items() if "Adam" not in name})


@pytest.mark.parametrize("module", [keras, tf_keras])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_layers_in_a_model_description_are_frozen(module, trainer):
    changes = Changes()
    with tf.Graph().as_default():
        trainer = TRAINERS[trainer]()
        flow = shares(len(trainer.devices))
        config = TrainConfig(
            model=Desc(module), dataflow=flow, callbacks=[changes], steps_per_epoch=STEPS, max_epoch=1, monitors=[]
        )
        launch_train_with_config(config, trainer)
    trained = {name for name in changes.names if "moving" not in name}
    assert trained == {"head/kernel", "head/bias"}


@pytest.mark.parametrize("module", [keras, tf_keras])
@pytest.mark.parametrize("kind", ["plain", "replicated", "strategy"])
def test_layers_of_an_estimator_are_frozen(module, kind, tmp_path):
    def model_fn(features, labels, mode):
        logits = logits_of(module, features, training=mode == "train")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer = tf.train.AdamOptimizer(0.1)
        if kind == "replicated":
            optimizer = TowerOptimizer(optimizer)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(ROWS)

    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"]) if kind == "strategy" else None
    config = RunConfig(train_distribute=strategy, save_checkpoints_steps=1)
    function = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"]) if kind == "replicated" else model_fn
    estimator = Estimator(function, str(tmp_path), config=config)
    values = []
    for steps in (1, 3):
        estimator.train(input_fn, max_steps=steps)
        values.append({name: estimator.get_variable_value(name) for name in estimator.get_variable_names()})
    first, last = values
    changed = {name for name in first if not np.array_equal(first[name], last[name])}
    trained = {name for name in changed if name.endswith(("kernel", "bias", "gamma", "beta"))}
    assert trained == {"head/kernel", "head/bias"}
    assert not any("frozen/" in name and "Adam" in name for name in first)
