"""What XLA makes of a training step: a compiled step over the same step as it is, for models of different kinds.

    python benchmarks/compile.py --out compile.json

Each model is trained twice by `SimpleTrainer`, with ``compile=None`` and compiled, in a graph and session of its own
with the same seed; that their costs agree is checked first. A round is some steps of each, on batches of one shape, and
then some on batches whose size (for the transformer, length) changes with each step, among four that both have seen.
Beside them stands the first step, in which XLA compiles, and the first steps of four new shapes.
"""

import time

import numpy as np
import tensorflow.compat.v1 as tf
from timing import Samples, argument_parser, print_table, time_calls, write_json

from tpack.compat.runtime import make_callable
from tpack.graph_builder.compiled import CompilePolicy
from tpack.input_source.tensors import PlaceholderInput
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.fc import FullyConnected
from tpack.models.registry import disable_layer_logging
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import JustCurrentSession
from tpack.train.trainers import SimpleTrainer

PLAIN, COMPILED = "as it is", "compiled"
SIZES = (12, 8, 16, 20)
COST_TOLERANCE = 1e-3
WIDTH, HEADS, STEPS = 64, 4, 20


def elementwise(x):
    """A chain of 100 element-wise operations on each row."""
    y = x * tf.get_variable("scale", [x.shape[-1]], initializer=tf.ones_initializer())
    for _ in range(50):
        y = y * 0.99 + 0.01
    return tf.reduce_mean(tf.square(y))


def convolutions(x):
    """Three convolutions with batch normalisation."""
    for number in range(3):
        x = tf.nn.relu(BatchNorm(f"norm{number}", Conv2D(f"conv{number}", x, 16, 3, use_bias=False)))
    return tf.reduce_mean(tf.square(FullyConnected("out", tf.reduce_mean(x, axis=[1, 2]), 10)))


def transformer(x):
    """Two layers of attention and a perceptron, on rows of 64 numbers."""
    for number in range(2):
        with tf.variable_scope(f"layer{number}"):
            x += attention(normalised("norm0", x))
            x += project("down", tf.nn.relu(project("up", normalised("norm1", x), 4 * WIDTH)), WIDTH)
    return tf.reduce_mean(tf.square(x))


def attention(x):
    """Attend to all rows of a sequence, with several heads."""
    length = tf.shape(x)[1]
    query, key, value = (
        tf.transpose(tf.reshape(project(name, x, WIDTH), [-1, length, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])
        for name in ("query", "key", "value")
    )
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / (WIDTH // HEADS) ** 0.5)
    together = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    return project("together", tf.reshape(together, [-1, length, WIDTH]), WIDTH)


def project(name, x, width):
    """Multiply rows by a matrix."""
    weight = tf.get_variable(name, [x.shape[-1], width])
    rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), weight)
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [width]], axis=0)) if x.shape.rank > 2 else rows


def normalised(name, x):
    """Normalise each row."""
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    scale = tf.get_variable(name, [WIDTH], initializer=tf.ones_initializer())
    normal = (x - mean) * tf.rsqrt(variance + 1e-3) * scale
    normal.set_shape(x.shape)
    return normal


def lstm_step(x, state):
    """Make one step of an LSTM: return its output and state."""
    with tf.variable_scope("lstm", reuse=tf.AUTO_REUSE):
        gates = project("weight", tf.concat([x, state[0]], axis=1), 4 * WIDTH)
    new, take, forget, give = tf.split(gates, 4, axis=1)
    cell = state[1] * tf.sigmoid(forget + 1) + tf.sigmoid(take) * tf.tanh(new)
    return tf.tanh(cell) * tf.sigmoid(give), cell


def unrolled_lstm(x):
    """An LSTM over 20 steps that are built one after the other."""
    state = [tf.zeros([tf.shape(x)[0], WIDTH])] * 2
    for number in range(STEPS):
        state = lstm_step(x[:, number], state)
    return tf.reduce_mean(tf.square(state[0]))


def looped_lstm(x):
    """The same in a loop of TensorFlow, which runs uncompiled."""
    zeros = tf.zeros([tf.shape(x)[0], WIDTH])
    lstm_step(x[:, 0], [zeros, zeros])

    def body(number, *state):
        output, cell = lstm_step(tf.gather(x, number, axis=1), state)
        output.set_shape([None, WIDTH])
        return number + 1, output, cell

    _, output, _ = tf.while_loop(lambda number, *_: number < STEPS, body, [0, zeros, zeros], maximum_iterations=STEPS)
    return tf.reduce_mean(tf.square(output))


# The model, the shape of its input, and which dimension changes.
MODELS = {
    "elementwise": (elementwise, [None, 20000], 0),
    "convolutions": (convolutions, [None, 28, 28, 8], 0),
    "transformer": (transformer, [8, None, WIDTH], 1),
    "lstm, unrolled": (unrolled_lstm, [None, STEPS, WIDTH], 0),
    "lstm, loop": (looped_lstm, [None, STEPS, WIDTH], 0),
}


class Training:
    """A model with its train op and session.

    Attributes:
        first_secs: how long the first step took.
        shapes_secs: how long the first two steps of each of the four sizes took, beyond the first step.
    """

    def __init__(self, name, compile):
        model, self._shape, self._changing = MODELS[name]
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            trainer = SimpleTrainer(compile=compile)
            signature = [tf.TensorSpec(self._shape, tf.float32, "x")]
            trainer.setup_graph(signature, PlaceholderInput(), model, lambda: tf.train.GradientDescentOptimizer(1e-3))
            trainer.setup_callbacks([], [])
            trainer.initialize(NewSessionCreator(), JustCurrentSession())
            inputs = trainer.towers[0].inputs
            fetches = [trainer.costs[0], *tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
            self._step = make_callable(
                trainer.sess, feeds=inputs, fetches=fetches[:1], targets=[trainer.train_op, *fetches[1:]]
            )
        rng = np.random.default_rng(0)
        self._batches = [rng.standard_normal(self._full(size), np.float32) for size in SIZES]
        self._number = 0
        start = time.perf_counter()
        self.costs = [self.fixed()]
        self.first_secs = time.perf_counter() - start
        self.costs += [self.changing() for _ in range(2 * len(SIZES))]
        self.shapes_secs = time.perf_counter() - start - self.first_secs

    def _full(self, size):
        return [size if position == self._changing else each for position, each in enumerate(self._shape)]

    def fixed(self):
        """Make a step on the first batch; return its cost."""
        return float(self._step(self._batches[0])[0])

    def changing(self):
        """Make a step on the next batch, which has another size."""
        self._number += 1
        return float(self._step(self._batches[self._number % len(SIZES)])[0])


def measure(name, rounds, steps):
    """Return the figures of one model."""
    policy = CompilePolicy(fall_back="loop" in name)
    ways = {PLAIN: Training(name, None), COMPILED: Training(name, policy)}
    if not np.allclose(ways[PLAIN].costs, ways[COMPILED].costs, rtol=COST_TOLERANCE):
        raise SystemExit(f"{name}: the costs differ: {ways[PLAIN].costs} and {ways[COMPILED].costs}")
    fixed, changing = Samples(), Samples()
    for number in range(rounds):
        # Who is first in a round finds the caches as the other left them.
        for way in sorted(ways, reverse=bool(number % 2)):
            fixed.add(way, time_calls(ways[way].fixed, steps))
            changing.add(way, time_calls(ways[way].changing, len(SIZES) * steps))
    return {
        "fixed": {**fixed.figures(), "ratio": fixed.ratio(COMPILED, PLAIN)},
        "changing": {**changing.figures(), "ratio": changing.ratio(COMPILED, PLAIN)},
        "first_secs": {way: training.first_secs for way, training in ways.items()},
        "shapes_secs": {way: training.shapes_secs for way, training in ways.items()},
    }


def row_of(name, figures):
    """Return a line of the table."""
    steps = [figures["fixed"][way]["median_secs"] * 1e3 for way in (PLAIN, COMPILED)]
    seconds = [figures[key][way] for key in ("first_secs", "shapes_secs") for way in (PLAIN, COMPILED)]
    return (name, *steps, figures["fixed"]["ratio"], figures["changing"]["ratio"], *seconds)


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--rounds", type=int, default=20, help="default: 20")
    parser.add_argument("--steps", type=int, default=5, help="steps of each a round (default: 5)")
    options = parser.parse_args()
    if min(options.rounds, options.steps) < 1:
        parser.error("all numbers must be at least 1")

    disable_layer_logging()
    figures = {name: measure(name, options.rounds, options.steps) for name in options.models}
    print_table(
        "a step compiled over the same step as it is, on one CPU device",
        ("", "ms", "compiled", "ratio", "changing shapes", "first step, s", "compiled", "new shapes, s", "compiled"),
        [row_of(name, each) for name, each in figures.items()],
    )
    write_json(options.out, {"rounds": options.rounds, "steps": options.steps, "models": figures})


if __name__ == "__main__":
    main()
