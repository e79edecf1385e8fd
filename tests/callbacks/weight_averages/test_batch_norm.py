"""Statistics of batch normalisation for averaged weights, against numpy."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.errors import CallbackError, InputError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.queue_input import QueueInput
from tpack.models.batch_norm import BatchNorm, BatchRenorm
from tpack.tf1.layers.normalization import batch_normalization
from tpack.train.single_cost import BuilderTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

ROWS, CHANNELS, EPOCHS = 6, 3, 3


def batches(rng, count):
    return [[rng.normal(3, 2, size=(ROWS, CHANNELS)).astype("float32")] for _ in range(count)]


class Model(ModelDesc):
    """Layers of all kinds on a weighted input, and one on what another gives."""

    def __init__(self, synchronised=False):
        self.synchronised = synchronised

    def inputs(self):
        return [tf.TensorSpec([None, CHANNELS], tf.float32, "x")]

    def build_graph(self, x):
        wide = x * tf.get_variable("w", [CHANNELS], initializer=tf.ones_initializer())
        outputs = [
            BatchNorm("own", wide, sync_statistics=self.synchronised, momentum=0.99),
            BatchNorm("internal", wide, ema_update="internal", sync_statistics=self.synchronised),
        ]
        if not self.synchronised:
            outputs.append(batch_normalization(wide, training=True, name="older"))
            with tf.variable_scope("keras"):
                outputs.append(keras.layers.BatchNormalization(name="keras")(wide, training=True))
            # What it puts out depends on whether its averages are read before they are moved: nothing is trained by it.
            BatchRenorm("again", wide, rmax=2.0, dmax=2.0)
        BatchNorm("second", tf.square(outputs[0]), sync_statistics=self.synchronised)
        return tf.add_n([tf.reduce_mean(tf.square(output - 0.5 * wide)) for output in outputs], name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(tf.get_variable("rate", initializer=0.05, trainable=False))


class Reader:
    """Reads all variables when triggered."""

    def __init__(self):
        self.variables = []
        self.seen = []

    def callback(self):
        return CallbackFactory(setup_graph=self._find, trigger=self._read)

    def _find(self, callback):
        self.variables = {v.op.name: v for v in tf.global_variables()}

    def _read(self, callback):
        self.seen.append(callback.trainer.sess.run(self.variables))


def train(trainer, model, callbacks, rng, **options):
    data = QueueInput(DataFromList(batches(rng, 8), shuffle=False))
    trainer.setup_graph(model.get_input_signature(), data, model.build_graph, model.get_optimizer)
    options = {"steps_per_epoch": 3, "max_epoch": EPOCHS, **options}
    trainer.train_with_defaults(callbacks=callbacks, extra_callbacks=None, monitors=[], **options)


def mean_of_statistics(arrays):
    """Return the means over batches of their means, variances, and variances of what they were drawn from."""
    parts = [(a.mean(0), a.var(0), a.var(0, ddof=1)) for a in np.asarray(arrays, np.float64)]
    return tuple(np.mean(part, axis=0) for part in zip(*parts, strict=True))


def second_inputs(wide, values):
    """Return what the second layer gets of each batch."""
    gamma, beta = values["own/gamma"], values["own/beta"]
    normal = [(a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5) * gamma + beta for a in wide]
    return np.square(normal)


def statistics_in(values):
    return {name: value for name, value in values.items() if name.rpartition("/")[0].endswith(("mean", "variance"))}


@pytest.mark.parametrize(
    "make", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)], ids=["simple", "replicated"]
)
def test_statistics_are_those_of_the_averages_while_they_are_in_use(make, rng):
    for_norm = batches(rng, 5)
    swa, inside, outside = SWA(2, batch_norm_data=DataFromList(for_norm, shuffle=False)), Reader(), Reader()
    seed = rng.integers(1000)
    train(make(), Model(), [swa, swa.evaluate(inside.callback()), outside.callback()], np.random.default_rng(seed))
    for values in inside.seen[1:]:
        wide = np.array([x for (x,) in for_norm], np.float64) * values["w"]
        mean, variance, unbiased = mean_of_statistics(wide)
        for name in ("own", "internal", "again"):
            np.testing.assert_allclose(values[f"{name}/mean/EMA"], mean, rtol=1e-5)
            np.testing.assert_allclose(values[f"{name}/variance/EMA"], unbiased, rtol=1e-5)
        np.testing.assert_allclose(values["older/moving_mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(values["older/moving_variance"], variance, rtol=1e-5)
        np.testing.assert_allclose(values["keras/keras/moving_mean"], mean, rtol=3e-5)
        np.testing.assert_allclose(values["keras/keras/moving_variance"], variance, rtol=3e-5)
        second, _, spread = mean_of_statistics(second_inputs(wide, values))
        np.testing.assert_allclose(values["second/mean/EMA"], second, rtol=1e-5)
        np.testing.assert_allclose(values["second/variance/EMA"], spread, rtol=1e-5)
    assert not np.array_equal(inside.seen[0]["own/mean/EMA"], inside.seen[1]["own/mean/EMA"])
    if make is not SimpleTrainer:
        return
    # Training goes on as if nobody had looked.
    alone = Reader()
    train(make(), Model(), [alone.callback()], np.random.default_rng(seed))
    for values, expected in zip(outside.seen, alone.seen, strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)


@pytest.mark.parametrize(
    "make", [lambda: SyncMultiGPUTrainerReplicated(2), lambda: SyncMultiGPUTrainerParameterServer(2)]
)
def test_layers_that_normalise_by_all_towers_get_a_batch_for_each(make, rng):
    for_norm = batches(rng, 4)
    swa, inside = SWA(batch_norm_data=DataFromList(for_norm, shuffle=False), batch_norm_steps=3), Reader()
    train(make(), Model(synchronised=True), [swa, swa.evaluate(inside.callback())], rng)
    for values in inside.seen:
        x = np.array([x for (x,) in for_norm], np.float64)
        # Three runs of two towers take six batches, and there are four.
        pairs = np.reshape(x[[0, 1, 2, 3, 0, 1]], [3, 2 * ROWS, CHANNELS]) * values["w"]
        for inputs, name in ((pairs, "own"), (pairs, "internal"), (second_inputs(pairs, values), "second")):
            mean, _, unbiased = mean_of_statistics(inputs)
            np.testing.assert_allclose(values[f"{name}/mean/EMA"], mean, rtol=1e-5)
            np.testing.assert_allclose(values[f"{name}/variance/EMA"], unbiased, rtol=1e-5)


def test_checkpoints_of_averages_have_their_statistics_and_arrays_are_data_too(tmp_path, rng):
    x = np.concatenate([x for (x,) in batches(rng, 4)])
    ema = EMA(0.5, batch_norm_data=(x,), batch_size=len(x))
    savers = [ModelSaver(checkpoint_dir=str(tmp_path / "plain")), ModelSaver(checkpoint_dir=str(tmp_path / "averages"))]
    train(SimpleTrainer(), Model(), [ema, savers[0], ema.evaluate(savers[1])], rng, max_epoch=1)
    plain, averages = (tf.train.load_checkpoint(str(tmp_path / name / "model-3")) for name in ("plain", "averages"))
    mean = (x.astype(np.float64) * averages.get_tensor("w")).mean(0)
    np.testing.assert_allclose(averages.get_tensor("own/mean/EMA"), mean, rtol=1e-5)
    assert not np.allclose(plain.get_tensor("own/mean/EMA"), mean, rtol=1e-3)


def test_weights_and_statistics_come_back_where_the_data_do_not_fit(rng):
    swa, outside = SWA(batch_norm_data=DataFromList([[np.zeros((2, 5), "float32")]])), Reader()
    seen = Reader()
    trainer = SimpleTrainer()
    at_end = CallbackFactory(after_train=lambda cb: outside._read(cb))
    first = outside.callback()
    with pytest.raises(InputError, match=r"has shape \(2, 5\), expected"):
        train(trainer, Model(), [first, swa, swa.evaluate(seen.callback()), at_end], rng, max_epoch=1)
    assert not seen.seen
    for name, value in outside.seen[0].items():
        np.testing.assert_array_equal(outside.seen[1][name], value)


def test_momentum_of_nothing_and_of_all():
    class Extremes(Model):
        def build_graph(self, x):
            wide = x * tf.get_variable("w", [CHANNELS], initializer=tf.ones_initializer())
            kept = BatchNorm("kept", wide, momentum=1.0)
            with tf.variable_scope("keras"):
                new = keras.layers.BatchNormalization(momentum=0.0, name="new")(wide, training=True)
            return tf.reduce_mean(tf.square(kept + new - 0.5 * wide), name="cost")

    rng = np.random.default_rng(0)
    for_norm = batches(rng, 2)
    swa, inside = SWA(batch_norm_data=DataFromList(for_norm, shuffle=False)), Reader()
    train(SimpleTrainer(), Extremes(), [swa, swa.evaluate(inside.callback())], rng, max_epoch=1)
    (values,) = inside.seen
    np.testing.assert_array_equal(values["kept/mean/EMA"], np.zeros(CHANNELS))
    mean, _, _ = mean_of_statistics([x * values["w"].astype(np.float64) for (x,) in for_norm])
    np.testing.assert_allclose(values["keras/new/moving_mean"], mean, rtol=1e-5)


def test_statistics_that_each_device_of_a_strategy_has_are_refused(rng):
    swa = SWA(batch_norm_data=DataFromList(batches(rng, 1)))
    trainer = BuilderTrainer(StrategyBuilder(MirroredStrategy(cpu_devices(2))))
    with pytest.raises(CallbackError, match="SWA cannot estimate own/mean/EMA: each device of a strategy has one"):
        train(trainer, Model(synchronised=True), [swa], rng)
