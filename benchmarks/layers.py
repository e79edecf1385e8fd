"""What tpack's layers cost: a training step of ResNet-50 made of them, over the same network in plain TensorFlow calls.

    python benchmarks/layers.py --out layers.json

Both networks train by SGD on one constant batch, in one tower on the CPU, in a graph and session of their own with the
same weights; that their costs are equal is checked first. A round is some steps of each. Beside the steps stand how
long building each graph takes, with gradients and optimizer, and how many operations it has, by kind where they differ.
"""

import time
from collections import Counter

import numpy as np
import resnet50
import tensorflow.compat.v1 as tf
from timing import Samples, argument_parser, print_table, time_calls, write_json

from tpack.compat.runtime import make_callable
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.fc import FullyConnected
from tpack.models.nonlin import BNReLU
from tpack.models.pool import GlobalAvgPooling, MaxPooling
from tpack.models.registry import disable_layer_logging
from tpack.tfutils.argscope import argscope
from tpack.tower.context import TowerContext

PLAIN, LAYERS = "plain TensorFlow", "tpack's layers"
LEARNING_RATE = 1e-4
COST_TOLERANCE = 1e-3


def logits_of_layers(image):
    """Return [batch, CLASSES], as `resnet50.logits` does."""
    with argscope(Conv2D, activation=BNReLU, use_bias=False), argscope(BatchNorm, epsilon=1e-3):
        features = Conv2D("conv0", image, 64, 7, strides=2)
        features = MaxPooling("pool0", features, 3, strides=2, padding="same")
        for index, (width, blocks, stride) in enumerate(resnet50.STAGES):
            for block in range(blocks):
                with tf.variable_scope(f"group{index}_block{block}"):
                    features = bottleneck(features, width, stride if block == 0 else 1)
    features = GlobalAvgPooling("gap", features)
    return FullyConnected("linear", features, resnet50.CLASSES)


def bottleneck(features, width, stride):
    """Add a residual block of three convolutions."""
    shortcut = features
    if stride != 1 or features.shape[-1] != 4 * width:
        shortcut = normalised_convolution("shortcut", features, 4 * width, stride)
    features = Conv2D("conv1", features, width, 1)
    features = Conv2D("conv2", features, width, 3, strides=stride)
    return tf.nn.relu(normalised_convolution("conv3", features, 4 * width) + shortcut)


def normalised_convolution(name, features, channels, stride=1):
    """Add a convolution with a kernel of size 1 and a batch normalisation, without an activation."""
    features = Conv2D(name, features, channels, 1, strides=stride, activation=None)
    return BatchNorm(f"{name}/bn", features)


class Network:
    """One of the two networks with its train op, built in a graph of its own.

    Attributes:
        build_secs: how long building took.
        op_types: how many operations of each kind the graph has.
    """

    def __init__(self, logits, batch):
        self._batch = batch
        self.graph = tf.Graph()
        with self.graph.as_default():
            start = time.perf_counter()
            self._build(logits)
            self.build_secs = time.perf_counter() - start
        self.op_types = Counter(op.type for op in self.graph.get_operations())

    def _build(self, logits):
        image, label = map(tf.constant, self._batch)
        with TowerContext("", is_training=True):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits(image))
            self._cost = tf.reduce_mean(losses)
            optimizer = tf.train.GradientDescentOptimizer(LEARNING_RATE)
            apply = optimizer.minimize(self._cost)
            self._train_op = tf.group(apply, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))

    def start(self):
        """Open a session and return the step as a function, which returns the cost before it."""
        with self.graph.as_default():
            self.session = tf.Session()
            self.session.run(tf.global_variables_initializer())
        step = make_callable(self.session, fetches=[self._cost], targets=[self._train_op])
        return lambda: step()[0]

    def variables(self):
        """Return the variables by the names that they have in the plain network."""
        with self.graph.as_default():
            return {v.op.name.replace("/bn/", "/").replace("/EMA", ""): v for v in tf.global_variables()}

    def load(self, other):
        """Take the values of another network's variables."""
        mine, theirs = self.variables(), other.variables()
        if mine.keys() != theirs.keys():
            raise SystemExit(f"variables of one network only: {sorted(mine.keys() ^ theirs.keys())}")
        with self.graph.as_default():
            for name, value in other.session.run(theirs).items():
                mine[name].load(value, self.session)


def make_batch(batch_size, image_size):
    rng = np.random.default_rng(0)
    images = rng.standard_normal((batch_size, image_size, image_size, 3), np.float32)
    return images, rng.integers(0, resnet50.CLASSES, batch_size, np.int32)


def measure_builds(batch, builds):
    """Return the samples of building each network, and the last one built of each."""
    samples, networks = Samples(), {}
    # The first graph of a process takes longer than others.
    Network(resnet50.logits, batch)
    for _ in range(builds):
        for name, logits in ((PLAIN, resnet50.logits), (LAYERS, logits_of_layers)):
            networks[name] = Network(logits, batch)
            samples.add(name, networks[name].build_secs)
    return samples, networks


def measure_steps(networks, rounds, steps):
    """Return the samples of a step, after checking that both networks compute the same."""
    functions = {name: network.start() for name, network in networks.items()}
    networks[LAYERS].load(networks[PLAIN])
    # The second cost sees the gradients of the first step too.
    costs = {name: [float(step()), float(step())] for name, step in functions.items()}
    if not np.allclose(costs[PLAIN], costs[LAYERS], rtol=COST_TOLERANCE):
        raise SystemExit(f"the two networks do not compute the same: their costs are {costs}")
    samples = Samples()
    for number in range(rounds):
        # Who is first in a round finds the caches as the other left them.
        for name in sorted(functions, reverse=bool(number % 2)):
            samples.add(name, time_calls(functions[name], steps))
    return samples, costs


def different_ops(networks):
    """Return {kind: [plain, layers]} where the two numbers of operations differ."""
    plain, layers = networks[PLAIN].op_types, networks[LAYERS].op_types
    kinds = sorted(plain.keys() | layers.keys())
    return {kind: [plain[kind], layers[kind]] for kind in kinds if plain[kind] != layers[kind]}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--batch", type=int, default=8, help="images a step (default: 8)")
    parser.add_argument("--size", type=int, default=224, help="height and width of an image (default: 224)")
    parser.add_argument("--rounds", type=int, default=20, help="default: 20")
    parser.add_argument("--steps", type=int, default=3, help="steps of each network a round (default: 3)")
    parser.add_argument("--builds", type=int, default=5, help="graphs of each network (default: 5)")
    options = parser.parse_args()
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    if min(settings.values()) < 1:
        parser.error("all numbers must be at least 1")

    disable_layer_logging()
    built, networks = measure_builds(make_batch(options.batch, options.size), options.builds)
    steps, costs = measure_steps(networks, options.rounds, options.steps)
    ops = {name: sum(network.op_types.values()) for name, network in networks.items()}
    ratios = {"step": steps.ratio(LAYERS, PLAIN), "build": built.ratio(LAYERS, PLAIN), "ops": ops[LAYERS] / ops[PLAIN]}
    rows = [(name, steps.median(name) * 1e3, built.median(name), str(ops[name])) for name in (PLAIN, LAYERS)]
    rows.append(("ratio", ratios["step"], ratios["build"], f"{ratios['ops']:.3f}"))
    print_table(
        f"ResNet-50, batch {options.batch}, {options.size} x {options.size}",
        ("", "ms a step", "s to build the graph", "operations"),
        rows,
    )
    different = different_ops(networks)
    print_table("operations by kind, where they differ", ("", PLAIN, LAYERS), [(k, *n) for k, n in different.items()])
    figures = {"steps": steps.figures(), "builds": built.figures(), "ops": ops, "different_ops": different}
    write_json(options.out, {**settings, **figures, "costs": costs, "ratios": ratios})


if __name__ == "__main__":
    main()
