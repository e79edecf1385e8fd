"""One row of `strategies.py`, measured in this process.

The arguments are the row, the network, the number of towers, the batch of each tower, and the steps of a round. When a
first round has run, it writes what building took, and then, for each line that it reads, the seconds of a step in one
more round. It ends when there are no more lines.
"""

import functools
import json
import sys
import time

import numpy as np
import strategies_models as models
import tensorflow
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils.env import usable_cores

RATE = 0.01


def batch_of(network, size):
    """Return images and labels."""
    rng = np.random.default_rng(1)
    images = rng.normal(size=(size, *models.SHAPES[network])).astype("float32")
    return images, rng.integers(0, models.CLASSES, size=size).astype("int32")


def say(value):
    """Write one line to the parent."""
    print("\n> " + json.dumps(value), flush=True)


def run_rounds(run_round):
    """Measure a round for each line that the parent writes."""
    for _ in sys.stdin:
        say(run_round())


class Network(ModelDesc):
    """The network for a trainer of tpack's."""

    def __init__(self, network):
        self.network = network

    def inputs(self):
        shape = models.SHAPES[self.network]
        return [tf.TensorSpec([None, *shape], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        def weight(name, shape, stddev):
            return tf.get_variable(name, initializer=lambda: models.initial_value(shape, stddev))

        return models.cost(self.network, image, label, weight)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(RATE)


class Rounds(Callback):
    """Lets each epoch but the first, which warms up, be a round that the parent asks for."""

    def __init__(self, build_secs, steps):
        self.build_secs = build_secs
        self.steps = steps

    def _before_epoch(self):
        if self.epoch_num > 1 and not sys.stdin.readline():
            raise StopTraining
        self.start = time.perf_counter()

    def _after_epoch(self):
        secs = (time.perf_counter() - self.start) / self.steps
        say(secs if self.epoch_num > 1 else {"build_secs": self.build_secs})


def train_with_tpack(make_trainer, network, num_towers, batch, steps):
    """Train by a trainer of tpack's, an epoch for each round."""
    images, labels = batch_of(network, batch)
    model, trainer = Network(network), make_trainer(num_towers)
    data = TensorInput(lambda: [tf.constant(images), tf.constant(labels)], size=steps)
    start = time.perf_counter()
    trainer.setup_graph(model.get_input_signature(), data, model.build_graph, model.get_optimizer)
    rounds = Rounds(time.perf_counter() - start, steps)
    trainer.train_with_defaults(
        callbacks=[rounds], extra_callbacks=[], monitors=[], steps_per_epoch=steps, max_epoch=sys.maxsize
    )


def tensorflow_strategy(num_towers, cross_device_ops=None):
    """Return TensorFlow's own mirrored strategy on logical CPU devices."""
    (cpu,) = tensorflow.config.list_physical_devices("CPU")
    logical = [tensorflow.config.LogicalDeviceConfiguration()] * num_towers
    tensorflow.config.set_logical_device_configuration(cpu, logical)
    return tensorflow.distribute.MirroredStrategy([f"CPU:{k}" for k in range(num_towers)], cross_device_ops)


def train_in_custom_loop(make_ops, network, num_towers, batch, steps):
    """Train by TensorFlow's strategy in a ``tf.function``, with the same network and the cheapest update there is."""
    images, labels = batch_of(network, batch)
    strategy = tensorflow_strategy(num_towers, make_ops())
    with strategy.scope():
        variables = {
            name: tensorflow.Variable(models.initial_value(*arguments), name=name.replace("/", "_"))
            for name, arguments in models.weight_shapes(network).items()
        }

    def merge(strategy, grads):
        mirrors = list(variables.values())
        mean = tensorflow.distribute.ReduceOp.MEAN
        reduced = strategy.extended.batch_reduce_to(mean, list(zip(grads, mirrors, strict=True)))
        for variable, grad in zip(mirrors, reduced, strict=True):
            strategy.extended.update(variable, lambda mirror, grad: mirror.assign_sub(RATE * grad), (grad,), group=True)

    def in_replica():
        with tensorflow.GradientTape() as tape:
            cost = models.cost(network, tf.constant(images), tf.constant(labels), lambda name, *_: variables[name])
        grads = tape.gradient(cost, list(variables.values()))
        tensorflow.distribute.get_replica_context().merge_call(merge, args=(grads,))

    @tensorflow.function
    def step():
        strategy.run(in_replica)

    start = time.perf_counter()
    step.get_concrete_function()
    build_secs = time.perf_counter() - start

    def run_round():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - start) / steps

    run_round()
    say({"build_secs": build_secs})
    run_rounds(run_round)


def train_in_custom_loop_on_shared_cores(make_ops, network, num_towers, batch, steps):
    """Do the same with operations that do not split their work over all cores, as sessions of tpack have by default."""
    tensorflow.config.threading.set_intra_op_parallelism_threads(max(1, usable_cores() // num_towers))
    train_in_custom_loop(make_ops, network, num_towers, batch, steps)


def train_with_fit(network, num_towers, batch, steps):
    """Train a Keras model by one call of ``fit`` under TensorFlow's strategy, an epoch for each round.

    With several steps in each execution, ``steps_per_execution``, TensorFlow 2.21 fails on logical CPU devices.
    """
    images, labels = batch_of(network, batch * num_towers)
    keras = tensorflow.keras
    strategy = tensorflow_strategy(num_towers)
    with strategy.scope():
        model = models.keras_model(network)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(RATE), loss)
    dataset = tensorflow.data.Dataset.from_tensors((images, labels)).repeat().prefetch(tensorflow.data.AUTOTUNE)
    rounds = fit_rounds(time.perf_counter(), steps)
    model.fit(dataset, steps_per_epoch=steps, epochs=sys.maxsize, verbose=0, callbacks=[rounds])


def fit_rounds(start, steps):
    """Return a callback for ``fit`` that does what `Rounds` does.

    What is built, ``fit`` builds in the first step. So building is what came until then, less the time of a step.
    """

    class FitRounds(tensorflow.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            if not hasattr(self, "first_secs"):
                self.first_secs = time.perf_counter() - start
                self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            secs = time.perf_counter() - self.start
            say(secs / steps if epoch else {"build_secs": self.first_secs - secs / max(1, steps - 1)})
            if not sys.stdin.readline():
                self.model.stop_training = True

    return FitRounds()


TRAININGS = {
    "strategy": functools.partial(train_with_tpack, lambda k: StrategyTrainer(MirroredStrategy(num_gpus=k))),
    "replicated": functools.partial(train_with_tpack, SyncMultiGPUTrainerReplicated),
    "loop": functools.partial(train_in_custom_loop, lambda: None),
    "loop_one_device": functools.partial(train_in_custom_loop, tensorflow.distribute.ReductionToOneDevice),
    "loop_shared_cores": functools.partial(
        train_in_custom_loop_on_shared_cores, tensorflow.distribute.ReductionToOneDevice
    ),
    "fit": train_with_fit,
}


if __name__ == "__main__":
    row, network_name, *numbers = sys.argv[1:]
    TRAININGS[row](network_name, *map(int, numbers))
