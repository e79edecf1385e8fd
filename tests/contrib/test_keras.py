"""Keras models on tpack's trainers: one tower against Keras's own ``fit``, and K towers against one."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.compat.runtime import eager_mode
from tpack.contrib.keras import KerasModel, KerasPhaseCallback, setup_keras_trainer
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.input_source.queue_input import QueueInput
from tpack.keras import model as described
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor
from tpack.tfutils.sessinit import SmartInit
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

STEPS, ROWS = 4, 6
X = np.random.default_rng(0).normal(size=(STEPS, ROWS, 4)).astype("float32")
Y = np.random.default_rng(1).integers(0, 3, (STEPS, ROWS)).astype("int32")
Z = np.random.default_rng(2).normal(size=(STEPS, ROWS, 2)).astype("float32")
SPECS = [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y")]
CROSS_ENTROPY = "sparse_categorical_crossentropy"


def described_by(model, *specs, optimizer="sgd", loss=CROSS_ENTROPY, **kwargs):
    signatures = {"input_signature": specs[0], "target_signature": specs[1]} if specs else {}
    return described.KerasModel(model, optimizer=optimizer, loss=loss, **signatures, **kwargs)


def dense(units, seed, **kwargs):
    initializer = keras.initializers.RandomNormal(stddev=0.3, seed=seed)
    return keras.layers.Dense(units, kernel_initializer=initializer, **kwargs)


def sequential():
    hidden = dense(5, 1, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))
    return keras.Sequential([hidden, keras.layers.BatchNormalization(momentum=0.5), dense(3, 2, activation="softmax")])


def functional(x):
    hidden = dense(5, 3, activation="tanh")(x)
    return keras.Model(x, dense(3, 4, activation="softmax")(hidden))


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = keras.layers.BatchNormalization()
        self.last = dense(3, 5, activation="softmax")

    def call(self, x, training=False):
        return self.last(self.norm(x, training=training))


def points(times=1):
    return DataFromList([[x, y] for x, y in zip(X, Y, strict=True) for _ in range(times)], shuffle=False)


def trained(get_model, optimizer, trainer=None, *, flow=None, specs=SPECS, loss=CROSS_ENTROPY, **kwargs):
    """Train two epochs, and return the model and its weights."""
    with tf.Graph().as_default():
        trainer = SimpleTrainer() if trainer is None else trainer()
        model = KerasModel(get_model, specs[0], specs[1:], flow or points(), trainer)
        model.compile(optimizer, loss)
        model.fit(steps_per_epoch=STEPS, max_epoch=2, monitors=[], **kwargs)
    return model, model.desc.trained_weights()


def fitted(model, optimizer, targets=Y, loss=CROSS_ENTROPY):
    """Return the weights after the same steps of Keras."""
    with eager_mode():
        model.compile(optimizer, loss)
        flat = targets.reshape(-1, *targets.shape[2:])
        model.fit(X.reshape(-1, 4), flat, batch_size=ROWS, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()


def assert_close(got, wanted):
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


OPTIMIZERS = {
    "sgd": lambda: "sgd",
    "adam": lambda: keras.optimizers.Adam(0.01, epsilon=1e-5),
    "nesterov": lambda: keras.optimizers.SGD(0.1, 0.9, nesterov=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_tower_is_what_keras_fits(optimizer):
    make = OPTIMIZERS[optimizer]
    assert_close(trained(sequential, make())[1], fitted(sequential(), make()))


@pytest.mark.parametrize("kind", ["functional", "subclassed"])
def test_models_of_every_kind_are_trained(kind):
    make = {"functional": lambda: functional(keras.Input([4])), "subclassed": Subclassed}[kind]
    get_model = {"functional": functional, "subclassed": Subclassed}[kind]
    assert_close(trained(get_model, "adam")[1], fitted(make(), "adam"))


@pytest.mark.parametrize("trainer", [SyncMultiGPUTrainerReplicated, SyncMultiGPUTrainerParameterServer])
@pytest.mark.parametrize("get_model", [sequential, functional, Subclassed])
def test_towers_are_one_with_the_whole_batch(trainer, get_model):
    # The towers have the same rows each, so that statistics of a tower's batch are those of the whole.
    whole = [[np.tile(x, (2, 1)), np.tile(y, 2)] for x, y in zip(X, Y, strict=True)]
    one = trained(get_model, "adam", flow=DataFromList(whole, shuffle=False))[1]
    assert_close(trained(get_model, "adam", lambda: trainer(2), flow=points(2))[1], one)


class Configurable(Subclassed):
    """A subclassed model of which Keras can make another one."""

    def get_config(self):
        return {}


def made_before(kind):
    """Return a model with weights that no initialiser gives it, and what its inputs and targets are."""
    if kind == "subclassed":
        model = Configurable()
        model(X[0])
    else:
        model = keras.Sequential([keras.Input([4], name="x"), *sequential().layers])
    rng = np.random.default_rng(3)
    model.set_weights([rng.uniform(0.1, 1, weight.shape) for weight in model.get_weights()])
    return model, SPECS if kind == "subclassed" else ()


@pytest.mark.parametrize("kind", ["sequential", "subclassed"])
@pytest.mark.parametrize("num_towers", [1, 2])
def test_a_model_that_was_made_before_is_trained_from_its_weights(kind, num_towers):
    model, specs = made_before(kind)
    before = model.get_weights()
    with tf.Graph().as_default():
        desc = described_by(model, *specs, loss=CROSS_ENTROPY)
        trainer = SimpleTrainer() if num_towers == 1 else SyncMultiGPUTrainerReplicated(2)
        trained_weights = []
        keep = CallbackFactory(after_train=lambda self: trained_weights.extend(desc.weights(self.trainer.sess)))
        config = TrainConfig(
            model=desc, dataflow=points(num_towers), steps_per_epoch=STEPS, max_epoch=2, callbacks=[keep], monitors=[]
        )
        launch_train_with_config(config, trainer)
    assert_close(model.get_weights(), before)
    assert_close(trained_weights, fitted(model, "sgd"))
    assert desc.get_input_signature()[1].shape.rank == 1


def test_what_a_model_does_not_tell_is_asked_for():
    with tf.Graph().as_default():
        inside = sequential()
        inside(tf.zeros([1, 4]))
    for model, message in [
        (made_before("subclassed")[0], "does not know its inputs: expected .* input_signature"),
        (functional, "takes the inputs: expected input_signature and target_signature"),
        (3, "a Keras model, or a function that returns one"),
    ]:
        with pytest.raises(ConfigError, match=message):
            described_by(model)
    for model, message in [(Subclassed(), "without weights: expected a model"), (inside, "with weights in a graph")]:
        with pytest.raises(ConfigError, match=message):
            described_by(model, *SPECS)


def test_an_older_model_is_given_its_inputs_as_a_list():
    flow = points()
    with tf.Graph().as_default():
        model = KerasModel(
            lambda inputs: functional(inputs[0]), inputs_desc=SPECS[:1], targets_desc=SPECS[1:], input=flow
        )
        model.compile("sgd", CROSS_ENTROPY)
        model.fit(steps_per_epoch=STEPS, max_epoch=2, monitors=[])
    assert_close(model.desc.trained_weights(), trained(functional, "sgd")[1])


def test_the_model_is_saved_as_keras_and_as_a_checkpoint(log_dir):
    model, weights = trained(sequential, "sgd", callbacks=[ModelSaver(checkpoint_dir=log_dir)])
    model.save(f"{log_dir}/model.keras")
    with eager_mode():
        loaded = keras.models.load_model(f"{log_dir}/model.keras")
        shares = loaded(X[0]).numpy()
    assert_close(loaded.get_weights(), weights)
    config = PredictConfig(
        model=model.desc, session_init=SmartInit(log_dir), input_names=["x", "y"], output_names=["total_loss"]
    )
    (cost,) = OfflinePredictor(config)(X[0], Y[0])
    penalty = 0.01 * np.sum(np.square(weights[0]))
    assert cost == pytest.approx(penalty - np.mean(np.log(shares[np.arange(ROWS), Y[0]])), rel=1e-5)


def test_several_outputs_have_their_losses_and_metrics():
    def two(x):
        return keras.Model(x, [dense(3, 1, activation="softmax")(x), dense(2, 2)(x)])

    rows = [[x, y, z] for x, y, z in zip(X, Y, Z, strict=True)]
    specs = [*SPECS, tf.TensorSpec([None, 2], tf.float32, "z")]
    with tf.Graph().as_default():
        model = KerasModel(two, specs[:1], specs[1:], DataFromList(rows, shuffle=False))
        model.compile(lambda: tf.train.GradientDescentOptimizer(0.1), [CROSS_ENTROPY, "mse"], ["mae"])
        assert model.desc.stat_names == ["total_loss", "y_loss", "z_loss", "y_mae", "z_mae"]


def test_validation_gives_the_cost_and_metrics():
    with tf.Graph().as_default():
        model = KerasModel(functional, *SPECS, points(), SimpleTrainer())
        model.compile(tf.train.GradientDescentOptimizer(0.0), CROSS_ENTROPY, ["accuracy", right_share])
        model.fit(validation_data=points(), steps_per_epoch=1, max_epoch=1)
        monitors = model.trainer.monitors
        shares = functional_outputs()
        right = np.mean([np.mean(np.argmax(share, 1) == y) for share, y in zip(shares, Y, strict=True)])
        assert monitors.get_latest("validation_accuracy") == pytest.approx(right)
        picked = [share[np.arange(ROWS), y] for share, y in zip(shares, Y, strict=True)]
        assert monitors.get_latest("validation_total_loss") == pytest.approx(-np.mean(np.log(picked)), rel=1e-5)
        assert monitors.get_latest("validation_right_share") == pytest.approx(np.mean(picked), rel=1e-5)


def right_share(target, output):
    return tf.gather(output, target, batch_dims=1)


def functional_outputs():
    with eager_mode():
        model = functional(keras.Input([4]))
        return [model(x).numpy() for x in X]


def test_a_description_is_for_any_trainer_and_setup_keeps_its_name():
    desc = described_by(functional, *SPECS, optimizer="adam")
    with tf.Graph().as_default():
        launch_train_with_config(
            TrainConfig(model=desc, dataflow=points(), steps_per_epoch=1, max_epoch=1, monitors=[]), SimpleTrainer()
        )
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        other = setup_keras_trainer(trainer, functional, *SPECS, QueueInput(points()), "sgd", CROSS_ENTROPY, "acc")
        assert other.stat_names == ["total_loss", "acc"]
        assert trainer.train_op is not None
        assert KerasPhaseCallback(True)._before_train() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adagrad"}, "the optimizer Adagrad, which Keras runs only eagerly"),
        ({"optimizer": keras.optimizers.Adam(use_ema=True)}, "the optimizer Adam with use_ema"),
        ({"metrics": ["no such"]}, "got the metric 'no such', unknown to Keras"),
        ({"loss": "no such"}, "the loss 'no such', which Keras does not know"),
        ({"loss": keras.losses.MeanSquaredError(reduction="sum")}, "a sum over the examples"),
        ({"loss": [CROSS_ENTROPY, "mse"]}, r"got 2 loss\(es\) for 1 target"),
    ],
)
def test_what_keras_cannot_do_in_a_graph_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        described_by(functional, *SPECS, **options)


def test_an_optimizer_that_was_made_in_a_graph_is_refused():
    with tf.Graph().as_default():
        optimizer = keras.optimizers.Adam(0.1)
        with pytest.raises(ConfigError, match="cannot read the optimizer"):
            described_by(functional, *SPECS, optimizer=optimizer)


@pytest.mark.parametrize(
    ("get_model", "message"),
    [
        (lambda: 3, "returned 3: expected a keras.Model"),
        (lambda x: keras.Model(x, [keras.layers.ReLU()(x), keras.layers.ReLU()(x)]), r"has 2 output\(s\): expected 1"),
    ],
)
def test_a_function_that_makes_no_fitting_model_is_refused(get_model, message):
    with pytest.raises(GraphBuildError, match=message):
        trained(get_model, "sgd")


def test_what_comes_too_early_or_is_foreign_is_refused():
    with tf.Graph().as_default():
        model = KerasModel(functional, *SPECS, points())
        with pytest.raises(ConfigError, match="is not compiled"):
            model.fit()
        model.compile("sgd", CROSS_ENTROPY)
        with pytest.raises(ConfigError, match="was not trained"):
            model.save("model.keras")
        with pytest.raises(ConfigError, match="expected a training tower"):
            model.desc.weights(tf.Session())
        with pytest.raises(WrongTypeError, match="only eagerly"):
            model.fit(callbacks=[keras.callbacks.Callback()])
        with pytest.raises(ConfigError, match="expected input_signature"):
            KerasModel(functional, *SPECS)
