"""One process of `cluster.py` with TensorFlow: a trainer of tpack's, or TensorFlow's own strategy in a custom loop.

It is started by `cluster_processes.Row` with the row, the network, how much smaller it is, and the steps of a round.
When the first steps have been made it says so, and then makes a round for each line that it reads.
"""

import json
import os
import sys

import strategies_models
import tensorflow
import tensorflow.compat.v1 as tf
from cluster_line import Span, place, say, serve_rounds
from cluster_models import CLASSES, RATE, batch_of, perceptron_layers, size_of, spread

import tpack.horovod as hvd
from tpack.callbacks.base import Callback
from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.ps_trainer import DistributedTrainerParameterServer, DistributedTrainerReplicated
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.train.trainers import SimpleTrainer
from tpack.utils.tf_config import ClusterTask


def cost_of(network, size, inputs, labels, weight):
    """Return the mean loss of a batch; `weight` is called as in `strategies_models.cost`."""
    if network == "resnet20":
        return strategies_models.cost("resnet20", inputs, labels, weight)
    if network == "embedding":
        features = tf.reduce_mean(tf.nn.embedding_lookup(weight("table", [size.rows, size.width], 1.0), inputs), 1)
        logits = features @ weight("linear/W", [size.width, CLASSES], 0.1) + weight("linear/b", [CLASSES], 0.0)
    else:
        logits = inputs
        for number, (width, outputs) in enumerate(perceptron_layers(size)):
            features = tf.nn.relu(logits) if number else logits
            kernel = weight(f"layer{number}/W", [width, outputs], spread(width))
            logits = features @ kernel + weight(f"layer{number}/b", [outputs], 0.0)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


class Network(ModelDesc):
    """A network for a trainer of tpack's."""

    def __init__(self, network, size):
        self.network, self.size = network, size

    def inputs(self):
        inputs, labels = batch_of(self.network, self.size, 0)
        return [
            tf.TensorSpec(inputs.shape, tf.as_dtype(inputs.dtype), "inputs"),
            tf.TensorSpec(labels.shape, tf.int32, "labels"),
        ]

    def build_graph(self, inputs, labels):
        def weight(name, shape, stddev):
            return tf.get_variable(name, initializer=lambda: strategies_models.initial_value(shape, stddev))

        return cost_of(self.network, self.size, inputs, labels, weight)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(RATE)


class Rounds(Callback):
    """Lets each epoch but the first, which warms up, be a round that the parent asks for.

    The first steps of an epoch, one or those up to an exchange, are not measured: after them, all workers have left
    behind what comes before an epoch.
    """

    _chief_only = False

    def __init__(self, steps, first_steps=1):
        self.steps, self.first_steps = steps, first_steps

    def _before_epoch(self):
        if self.epoch_num > 1 and not sys.stdin.readline():
            raise StopTraining

    def _trigger_step(self):
        if self.local_step == self.first_steps:
            self.span = Span()
        elif self.local_step == self.steps + self.first_steps:
            say(self.span.over(self.steps) if self.epoch_num > 1 else "ready")


def task_of(rank, addresses, *, has_server):
    """Return the task of this process; the last one is a parameter server where there is one."""
    if not has_server:
        return ClusterTask({"worker": addresses}, "worker", rank)
    workers, servers = addresses[:-1], addresses[-1:]
    job, index = ("worker", rank) if rank < len(workers) else ("ps", 0)
    return ClusterTask({"worker": workers, "ps": servers}, job, index)


def train_with_tpack(make_trainer, network, size, steps, first_steps=1):
    """Train by a trainer of tpack's, an epoch for each round."""
    rank, addresses, (row, *_) = place()
    trainer = make_trainer(task_of(rank, addresses, has_server=row in WITH_SERVER))
    if rank == len(addresses) - 1 and row in WITH_SERVER:
        trainer.join()
        return
    inputs, labels = batch_of(network, size, rank)
    model = Network(network, size)
    data = TensorInput(lambda: [tf.constant(inputs), tf.constant(labels)], size=steps)
    trainer.setup_graph(model.get_input_signature(), data, model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=[Rounds(steps, first_steps)],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=first_steps + steps,
        max_epoch=sys.maxsize,
    )


def train_with_tensorflow(network, size, steps):
    """Train by `MultiWorkerMirroredStrategy` in a function of TensorFlow's, with the cheapest update there is."""
    rank, addresses, _ = place()
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    inputs, labels = batch_of(network, size, rank)
    variables = {}

    def first(name, shape, stddev):
        variables[name] = tensorflow.Variable(
            strategies_models.initial_value(shape, stddev), name=name.replace("/", "_")
        )
        return variables[name]

    with strategy.scope():
        cost_of(network, size, tf.constant(inputs), tf.constant(labels), first)

    def merge(strategy, grads):
        mirrors = list(variables.values())
        mean = tensorflow.distribute.ReduceOp.MEAN
        reduced = strategy.extended.batch_reduce_to(mean, list(zip(grads, mirrors, strict=True)))
        for variable, grad in zip(mirrors, reduced, strict=True):
            strategy.extended.update(variable, update, (grad,), group=True)

    def in_replica():
        with tensorflow.GradientTape() as tape:
            cost = cost_of(network, size, tf.constant(inputs), tf.constant(labels), lambda name, *_: variables[name])
        grads = tape.gradient(cost, list(variables.values()))
        tensorflow.distribute.get_replica_context().merge_call(merge, args=(grads,))

    @tensorflow.function
    def step():
        strategy.run(in_replica)

    step()
    say("ready")
    serve_rounds(step, steps)


def update(mirror, grad):
    """Take a part of a gradient off a variable."""
    if isinstance(grad, tensorflow.IndexedSlices):
        return mirror.scatter_sub(tensorflow.IndexedSlices(grad.values * RATE, grad.indices))
    return mirror.assign_sub(RATE * grad)


def use_share_of_cores():
    """Let a process that is alone have no more cores than one of two has."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[: max(1, len(cores) // 2)])


def train_with_horovod(network, size, steps):
    """Train by Horovod's names, in a session and a loop of the script's own."""
    rank, addresses, _ = place()
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
    hvd.init()
    inputs, labels = batch_of(network, size, rank)
    with tf.Graph().as_default():

        def weight(name, shape, stddev):
            return tf.get_variable(name, initializer=lambda: strategies_models.initial_value(shape, stddev))

        cost = cost_of(network, size, tf.constant(inputs), tf.constant(labels), weight)
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(RATE))
        train_op = optimizer.minimize(cost, global_step=tf.train.get_or_create_global_step())
        copied = hvd.broadcast_global_variables(0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(copied)
            session.run(train_op)
            say("ready")
            serve_rounds(lambda: session.run(train_op), steps)


TRAINERS = {
    "alone": lambda task: SimpleTrainer(),
    "replicated": lambda task: MultiWorkerTrainerReplicated(1, cluster=task),
    "ps": lambda task: DistributedTrainerParameterServer(1, cluster=task),
    "ps synchronous": lambda task: DistributedTrainerParameterServer(1, synchronous=True, cluster=task),
    "ps replicated": lambda task: DistributedTrainerReplicated(1, cluster=task),
}
WITH_SERVER = ("ps", "ps synchronous", "ps replicated")
"""The rows with a parameter server, in a process of its own."""


def main():
    _, addresses, (row, network, shrink, steps) = place()
    size = size_of(network, int(shrink))
    if len(addresses) == 1:
        use_share_of_cores()
    if row == "tensorflow":
        train_with_tensorflow(network, size, int(steps))
    elif row == "horovod":
        train_with_horovod(network, size, int(steps))
    else:
        train_with_tpack(TRAINERS[row], network, size, int(steps))


if __name__ == "__main__":
    main()
