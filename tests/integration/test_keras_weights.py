"""Weights that Keras layers are given while a model is built: all that trains or predicts begins with them."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack import (
    Callback,
    ModelDesc,
    ModelSaver,
    OfflinePredictor,
    PredictConfig,
    SmartInit,
    TensorInput,
    TrainConfig,
    launch_train_with_config,
)
from tpack.distribute import MirroredStrategy, OneDeviceStrategy, ParameterServerStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import GraphBuildError
from tpack.estimator import Estimator, EstimatorSpec
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TRAINERS = {
    "simple": SimpleTrainer,
    "replicated": lambda: SyncMultiGPUTrainerReplicated(3),
    "parameter server": lambda: SyncMultiGPUTrainerParameterServer(2),
    "async": lambda: AsyncMultiGPUTrainer(2),
    "mirrored": lambda: StrategyTrainer(MirroredStrategy(num_gpus=2)),
    "one device": lambda: StrategyTrainer(OneDeviceStrategy("/cpu:0")),
    "parameter server strategy": lambda: StrategyTrainer(ParameterServerStrategy(num_gpus_per_worker=2)),
}


def network():
    return keras.Sequential(
        [
            keras.layers.Input([3]),
            keras.layers.Dense(4, activation="tanh", name="hidden"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(2, name="out"),
        ]
    )


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Weights of another framework's training, as arrays and in files of both kinds; and what the model says."""
    directory = tmp_path_factory.mktemp("keras")
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6, 3)).astype("float32")
    model = network()
    arrays = [rng.uniform(0.5, 1.5, size=weight.shape).astype("float32") for weight in model.weights]
    model.set_weights(arrays)
    model.save(directory / "model.keras")
    model.save_weights(directory / "model.weights.h5")
    return {"directory": directory, "arrays": arrays, "x": x, "outputs": model(x, training=False).numpy()}


def load_model(pretrained):
    return keras.models.load_model(pretrained["directory"] / "model.keras")


def load_weights(pretrained):
    model = network()
    model.load_weights(pretrained["directory"] / "model.weights.h5")
    return model


def set_weights(pretrained):
    model = network()
    model.set_weights([np.zeros_like(array) for array in pretrained["arrays"]])
    model.set_weights(pretrained["arrays"])
    return model


def set_weights_of_layers(pretrained):
    model = network()
    arrays = iter(pretrained["arrays"])
    for layer in model.layers:
        layer.set_weights([next(arrays) for _ in layer.weights])
    return model


LOADERS = [load_model, load_weights, set_weights, set_weights_of_layers]


class Model(ModelDesc):
    """Trains what a function gives, with a rate of nothing, so that the weights stay."""

    def __init__(self, make, rate=0.0):
        self._make = make
        self._rate = rate

    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "x")]

    def build_graph(self, x):
        model = self._make()
        outputs = tf.identity(model(x, training=False), name="outputs")
        return tf.reduce_mean(outputs, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(self._rate)


class Weights(Callback):
    """Reads all variables of each tower, copies and mirrors too, before and after training; and predicts."""

    def __init__(self, x):
        self._x = x

    def _setup_graph(self):
        self._predictor = self.trainer.get_predictor(["x"], ["outputs"])
        known = [v for v in [*tf.global_variables(), *tf.local_variables()] if v.dtype.base_dtype == tf.float32]
        self._weights = {part.op.name: part for v in known for part in getattr(v, "components", [v])}

    def _before_train(self):
        self.before = self.trainer.sess.run(self._weights)
        (self.outputs,) = self._predictor(self._x)

    def _after_train(self):
        self.after = self.trainer.sess.run(self._weights)


def launch(trainer, model, x, *callbacks, session_init=None):
    """Train for a step and return what each variable held before and after."""
    weights = Weights(x)
    with tf.Graph().as_default():
        config = TrainConfig(
            model=model,
            data=TensorInput(lambda: [tf.constant(x)], size=1),
            callbacks=[weights, *callbacks],
            monitors=[],
            steps_per_epoch=1,
            max_epoch=1,
            session_init=session_init,
        )
        launch_train_with_config(config, trainer())
    return weights


def by_weight(values):
    """Return values of variables by the last two parts of the main ones' names, as sets of what replicas have."""
    found = {}
    for name, value in values.items():
        parts = [part for part in name.split("/") if not part.startswith(("replica_", "tower", "sequential"))]
        found.setdefault("/".join(parts[-2:]), []).append(value)
    return found


def assert_pretrained(values, pretrained, num_replicas=None):
    found = by_weight(values)
    names = [f"hidden/{w}" for w in ("kernel", "bias")]
    names += [f"norm/{w}" for w in ("gamma", "beta", "moving_mean", "moving_variance")]
    names += [f"out/{w}" for w in ("kernel", "bias")]
    for name, array in zip(names, pretrained["arrays"], strict=True):
        assert num_replicas in (None, len(found[name]))
        for value in found[name]:
            np.testing.assert_array_equal(value, array, err_msg=name)


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", ["simple", "replicated", "mirrored"])
def test_loaded_weights_are_those_of_every_replica(name, load, pretrained):
    weights = launch(TRAINERS[name], Model(lambda: load(pretrained)), pretrained["x"])
    replicas = {"simple": 1, "replicated": 3, "mirrored": 2}[name]
    assert_pretrained(weights.before, pretrained, replicas)
    assert_pretrained(weights.after, pretrained, replicas)
    np.testing.assert_allclose(weights.outputs, pretrained["outputs"], rtol=1e-5)


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_begins_with_pretrained_weights(name, pretrained):
    weights = launch(TRAINERS[name], Model(lambda: load_model(pretrained), 0.1), pretrained["x"])
    assert_pretrained(weights.before, pretrained)
    np.testing.assert_allclose(weights.outputs, pretrained["outputs"], rtol=1e-5)
    assert (by_weight(weights.after)["out/bias"][0] != pretrained["arrays"][-1]).any()


@pytest.mark.parametrize("name", ["simple", "replicated", "mirrored"])
def test_a_checkpoint_goes_before_pretrained_weights(name, pretrained, tmp_path):
    model = Model(lambda: load_model(pretrained), 0.1)
    first = launch(TRAINERS[name], model, pretrained["x"], ModelSaver(checkpoint_dir=str(tmp_path)))
    second = launch(
        TRAINERS[name], model, pretrained["x"], session_init=SmartInit(tf.train.latest_checkpoint(tmp_path))
    )
    # The moving average of the cost goes on only in a run that resumes.
    saved = {name: value for name, value in first.after.items() if not name.startswith("callbacks/")}
    assert len(saved) >= len(pretrained["arrays"])
    for name, value in saved.items():
        np.testing.assert_array_equal(second.before[name], value)


@pytest.mark.parametrize("load", LOADERS)
def test_a_predictor_without_a_checkpoint_has_pretrained_weights(load, pretrained):
    predictor = OfflinePredictor(
        PredictConfig(model=Model(lambda: load(pretrained)), input_names=["x"], output_names=["outputs"])
    )
    np.testing.assert_allclose(predictor(pretrained["x"])[0], pretrained["outputs"], rtol=1e-5)


def test_an_estimator_begins_with_pretrained_weights(pretrained, tmp_path):
    def model_fn(features, labels, mode):
        outputs = load_model(pretrained)(features, training=False)
        loss = tf.reduce_mean(outputs)
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        init_op = tf.global_variables_initializer()
        scaffold = tf.train.Scaffold(init_op=init_op)
        return EstimatorSpec(mode, outputs, loss, train_op, eval_metric_ops={}, scaffold=scaffold)

    def input_fn():
        return tf.constant(pretrained["x"]), None

    estimator = Estimator(model_fn, model_dir=str(tmp_path))
    estimator.train(input_fn, steps=1)
    values = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    assert_pretrained({name.removesuffix(":0"): value for name, value in values.items()}, pretrained)
    assert estimator.evaluate(input_fn, steps=1)["loss"] == pytest.approx(pretrained["outputs"].mean(), rel=1e-5)


@pytest.mark.parametrize("trainer", [SimpleTrainer, TRAINERS["parameter server"]])
def test_a_model_of_the_same_graph_keeps_its_weights_where_towers_share_it(trainer, pretrained):
    with tf.Graph().as_default():
        model, weights = load_model(pretrained), Weights(pretrained["x"])
        config = TrainConfig(
            model=Model(lambda: model),
            data=TensorInput(lambda: [tf.constant(pretrained["x"])], size=1),
            callbacks=[weights],
            monitors=[],
            max_epoch=1,
        )
        launch_train_with_config(config, trainer())
    assert_pretrained(weights.before, pretrained)
    np.testing.assert_allclose(weights.outputs, pretrained["outputs"], rtol=1e-5)


def test_replicas_do_not_leave_a_model_of_the_same_graph_untrained(pretrained):
    with tf.Graph().as_default():
        model = load_model(pretrained)

        def make():
            head = keras.layers.Dense(1, name="head")
            return lambda x, training: head(model(x, training=training))

        config = TrainConfig(
            model=Model(make), data=TensorInput(lambda: [tf.constant(pretrained["x"])], size=1), max_epoch=1
        )
        wanted = r"cost of training tower 'tower0' .* made outside of it: (sequential/)?hidden/bias, .* in build_graph"
        with pytest.raises(GraphBuildError, match=wanted):
            launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))


@pytest.mark.parametrize("where", ["eager", "another graph"])
@pytest.mark.parametrize("name", ["simple", "replicated", "mirrored"])
def test_a_model_of_elsewhere_is_an_error_that_says_what_to_do(name, where, pretrained):
    if where == "eager":
        model = load_model(pretrained)
    else:
        with tf.Graph().as_default():
            model = load_model(pretrained)
    with pytest.raises(GraphBuildError, match=r"has variables from outside, .*clone_model\(model\); model.set_weights"):
        launch(TRAINERS[name], Model(lambda: model), pretrained["x"])


@pytest.mark.parametrize("name", ["simple", "replicated", "mirrored"])
def test_a_model_of_elsewhere_is_cloned_with_its_weights_as_the_error_says(name, pretrained):
    outside = load_model(pretrained)
    weights = outside.get_weights()

    def clone():
        model = keras.models.clone_model(outside)
        model.set_weights(weights)
        return model

    assert_pretrained(launch(TRAINERS[name], Model(clone), pretrained["x"]).before, pretrained)
