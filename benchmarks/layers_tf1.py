"""What `tpack.tf1` costs: training steps and building, over TensorFlow's own layers and cells of TensorFlow 1.

    python benchmarks/layers_tf1.py --out layers_tf1.json

Each row is a small network, built once with the layers of `tpack.tf1` and once with the original ones, which `tf_keras`
still has, in graphs and sessions of their own of one process, with the same weights; that their costs are equal is
checked first. A round is some steps of each.
"""

import os

# Read by TensorFlow at its first import: with it, ``tf.compat.v1.layers`` and ``nn.rnn_cell`` are the original ones.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import time  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as original  # noqa: E402
from layers_tf1_networks import LAYERS  # noqa: E402
from timing import Samples, argument_parser, print_table, time_calls, write_json  # noqa: E402

import tpack.tf1  # noqa: E402
from tpack.compat.runtime import make_callable  # noqa: E402

ORIGINAL, OURS = "original", "tpack.tf1"
BATCH, TIME, DEPTH, UNITS = 32, 16, 64, 128
COST_TOLERANCE = 1e-4


def sequences(tf):
    """Return inputs of [batch, time, depth]."""
    values = np.random.default_rng(0).normal(size=[BATCH, TIME, DEPTH])
    return tf.placeholder_with_default(tf.constant(values, tf.float32), [None, TIME, DEPTH])


def looped(make):
    """Return a network of a cell that a loop unrolls, with examples of several lengths."""

    def network(tf):
        lengths = tf.constant(np.arange(BATCH) % TIME + 1)
        return tf.nn.dynamic_rnn(make(tf.nn.rnn_cell), sequences(tf), sequence_length=lengths, dtype=tf.float32)[0]

    return network


def static(make):
    """Return a network of a cell that is in the graph for each step."""

    def network(tf):
        steps = tf.unstack(sequences(tf), axis=1)
        return tf.stack(tf.nn.static_rnn(make(tf.nn.rnn_cell), steps, dtype=tf.float32)[0])

    return network


def stacked(rnn):
    """Return the cell of a language model of 2016: two layers, with dropout that keeps all."""
    return rnn.MultiRNNCell([rnn.DropoutWrapper(rnn.BasicLSTMCell(UNITS), output_keep_prob=1.0) for _ in range(2)])


# The networks by name: each a function of ``tf`` that returns outputs.
NETWORKS = {
    **LAYERS,
    "BasicLSTMCell, dynamic_rnn": looped(lambda rnn: rnn.BasicLSTMCell(UNITS)),
    "LSTMCell with peepholes and projection, dynamic_rnn": looped(lambda rnn: rnn.LSTMCell(UNITS, True, num_proj=64)),
    "GRUCell, dynamic_rnn": looped(lambda rnn: rnn.GRUCell(UNITS)),
    "MultiRNNCell of two, dynamic_rnn": looped(stacked),
    "BasicLSTMCell, static_rnn": static(lambda rnn: rnn.BasicLSTMCell(UNITS)),
    "GRUCell, static_rnn": static(lambda rnn: rnn.GRUCell(UNITS)),
}


class Network:
    """A network with its train op, in a graph of its own.

    Attributes:
        build_secs: how long building took.
        num_ops: of the graph, without those inside of loops.
    """

    def __init__(self, tf, network):
        self._tf = tf
        self.graph = tf.Graph()
        with self.graph.as_default():
            start = time.perf_counter()
            self._cost = tf.reduce_mean(tf.square(network(tf)))
            update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            self._train_op = tf.group(tf.train.GradientDescentOptimizer(1e-3).minimize(self._cost), *update_ops)
            self.build_secs = time.perf_counter() - start
        self.num_ops = len(self.graph.get_operations())

    def start(self):
        """Open a session with weights that follow from their names; return the step, which returns the cost."""
        tf = self._tf
        with self.graph.as_default():
            session = tf.Session()
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(sorted(tf.global_variables(), key=lambda variable: variable.op.name)):
                if variable.dtype.base_dtype.is_floating and "variance" not in variable.op.name:
                    values = np.random.default_rng(number).normal(size=variable.shape.as_list(), scale=0.1)
                    variable.load(values, session)
        step = make_callable(session, fetches=[self._cost], targets=[self._train_op])
        return lambda: float(step()[0])


def measure(network, options):
    """Return the samples of building and of steps of a network, and how many operations it has, by whose layers."""
    builds, built, steps = Samples(), {}, Samples()
    for number in range(options.builds + 1):
        for name, tf in sorted({ORIGINAL: original, OURS: tpack.tf1}.items(), reverse=bool(number % 2)):
            built[name] = Network(tf, network)
            # The first graphs of a process take longer than others.
            if number:
                builds.add(name, built[name].build_secs)
    functions = {name: built[name].start() for name in built}
    costs = {name: [step(), step()] for name, step in functions.items()}
    if not np.allclose(costs[ORIGINAL], costs[OURS], rtol=COST_TOLERANCE):
        raise SystemExit(f"the two networks do not compute the same: their costs are {costs}")
    for number in range(options.rounds):
        for name in sorted(functions, reverse=bool(number % 2)):
            steps.add(name, time_calls(functions[name], options.steps))
    return builds, steps, {name: built[name].num_ops for name in built}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="default: 20")
    parser.add_argument("--steps", type=int, default=5, help="steps of each network a round (default: 5)")
    parser.add_argument("--builds", type=int, default=5, help="graphs of each network (default: 5)")
    parser.add_argument("--only", default="", help="networks with this in their names (default: all)")
    options = parser.parse_args()
    if min(options.rounds, options.steps, options.builds) < 1:
        parser.error("all numbers must be at least 1")
    rows, figures = [], {}
    for name, network in NETWORKS.items():
        if options.only not in name:
            continue
        builds, steps, ops = measure(network, options)
        ratios = {
            "step": steps.ratio(OURS, ORIGINAL),
            "build": builds.ratio(OURS, ORIGINAL),
            "ops": ops[OURS] / ops[ORIGINAL],
        }
        figures[name] = {"steps": steps.figures(), "builds": builds.figures(), "ops": ops, "ratios": ratios}
        rows.append((name, *(steps.median(side) * 1e3 for side in (ORIGINAL, OURS)), ratios["step"], ratios["build"]))
    headers = ("", f"ms a step, {ORIGINAL}", OURS, "ratio of steps", "ratio of building")
    print_table("tpack.tf1 over the original layers", headers, rows)
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    write_json(options.out, {**settings, "networks": figures})


if __name__ == "__main__":
    main()
