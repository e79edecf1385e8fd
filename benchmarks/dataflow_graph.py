"""The ways of a batch into the graph: batches per second, against feeding one constant array again and again.

    python benchmarks/dataflow_graph.py --steps 200 --rounds 5 --out dataflow_graph.json

The data cost nothing to make: one array that is yielded for ever. A step does nothing but look at one number of each
batch, so what is measured is the way alone. Each way is a training of two epochs, of which the second one counts.
"""

import time
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf
from timing import Samples, argument_parser, print_table, write_json

from tpack import Callback, FeedInput, QueueInput, StagingInput, TFDatasetInput, Trainer, logger
from tpack.dataflow import DataFlow
from tpack.input_source import PlaceholderInput, queue_input
from tpack.input_source.queue_input import aligned_copy
from tpack.tfutils.sesscreate import NewSessionCreator

BATCHES = {"64x224x224x3 uint8": ([64, 224, 224, 3], "uint8"), "8 floats": ([8], "float32")}

CONSTANT = "feeding a constant"


class Again(DataFlow):
    """Yield one data point for ever."""

    def __init__(self, array):
        self.array = array

    def __iter__(self):
        while True:
            yield [self.array]


class FreshCopies:
    """Makes each copy in fresh memory: what `QueueInput` did before it used memory again."""

    def copy(self, array, dtype):
        return aligned_copy(array, dtype)


class FeedConstant(Callback):
    """Feeds the same aligned array with each step."""

    def __init__(self, placeholder, array):
        self._args = tf.train.SessionRunArgs(fetches=[], feed_dict={placeholder: aligned_copy(array, array.dtype)})

    def _before_run(self, ctx):
        return self._args


class Clock(Callback):
    """Takes the time of the last epoch's steps."""

    def _before_epoch(self):
        self._start = time.perf_counter()

    def _after_epoch(self):
        self.secs_per_step = (time.perf_counter() - self._start) / self.trainer.steps_per_epoch


def secs_of(make_source, array, steps, *, feeds=False):
    """Return how long a step takes whose data come from a source."""
    with tf.Graph().as_default():
        source, clock, trainer = make_source(), Clock(), Trainer()
        trainer.register_callback(source.setup([tf.TensorSpec(array.shape, array.dtype, "batch")]))
        (batch,) = source.get_input_tensors()
        trainer.train_op = tf.reshape(batch, [-1])[0].op
        callbacks = [clock, FeedConstant(batch, array)] if feeds else [clock]
        trainer.train(callbacks, [], NewSessionCreator(), None, steps, max_epoch=2)
        return clock.secs_per_step


def secs_in_fresh_memory(array, steps):
    """Return how long a step takes if no memory is used again."""
    with mock.patch.object(queue_input, "AlignedCopies", FreshCopies):
        return secs_of(lambda: QueueInput(Again(array)), array, steps)


def measure_batch(array, steps, rounds):
    """Return batches per second by way, and their ratios to feeding a constant."""
    flow, samples = Again(array), Samples()
    ways = {
        CONSTANT: lambda: secs_of(PlaceholderInput, array, steps, feeds=True),
        "QueueInput": lambda: secs_of(lambda: QueueInput(flow), array, steps),
        "QueueInput, fresh memory": lambda: secs_in_fresh_memory(array, steps),
        "StagingInput of a QueueInput": lambda: secs_of(lambda: StagingInput(QueueInput(flow)), array, steps),
        "TFDatasetInput": lambda: secs_of(lambda: TFDatasetInput(flow), array, steps),
        "FeedInput": lambda: secs_of(lambda: FeedInput(flow), array, steps),
    }
    for _ in range(rounds):
        for name, way in ways.items():
            samples.add(name, way())
    return {
        "batches_per_sec": {name: 1 / samples.median(name) for name in ways},
        "ratios": {name: samples.ratio(CONSTANT, name) for name in ways if name != CONSTANT},
        "secs": samples.figures(),
    }


def measure(steps, rounds, seed=0):
    """Return the figures of each kind of batch."""
    rng = np.random.default_rng(seed)
    return {
        name: measure_batch(rng.integers(0, 255, shape).astype(dtype), steps, rounds)
        for name, (shape, dtype) in BATCHES.items()
    }


def report(steps, rounds):
    """Measure each kind of batch; print the tables and return the figures."""
    logger.setLevel("WARNING")
    figures = measure(steps, rounds)
    for kind, of_kind in figures.items():
        rows = [(name, rate, of_kind["ratios"].get(name, 1.0)) for name, rate in of_kind["batches_per_sec"].items()]
        print_table(kind, ("way", "batches/s", "of feeding a constant"), rows)
    return figures


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=200, help="steps of an epoch")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    write_json(args.out, report(args.steps, args.rounds))


if __name__ == "__main__":
    main()
