"""What each pass of Grappler costs before the first step and changes in a step: why tpack asks for few of them.

    python benchmarks/grappler.py --models resnet50 lstm --towers 1 8 --out grappler.json

TensorFlow rewrites a graph before it runs it. Here the same graph, written by hand with so many towers, is run in one
session for each way of doing so: not at all, by one pass alone after the removal of what is not fetched, by those that
`NewSessionCreator` chooses for the graph, and by all of TensorFlow's default. Preparing is what the initialisers' runs
and the first step take of the processor. Steps take turns, and are compared with those of the graph as it is, by the
processor's time again: that of a small step on the wall says most about the other programs of a machine.
"""

import sys
import time

import tensorflow.compat.v1 as tf
from models_shared import MODELS
from startup_by_hand import build
from timing import Samples, argument_parser, print_table, write_json

from tpack.tfutils.sesscreate import choose_rewrites
from tpack.tower.devices import provide_cpu_devices

NONE, PRUNING, CHOSEN, ALL = "none", "pruning", "chosen by tpack", "all"
MODELS_BY_DEFAULT = ("resnet50", "transformer", "lstm", "perceptron")
PASSES = ("function", "shape", "constfold", "arithmetic", "layout", "remap", "loop", "dependency", "memory")
WAYS = (NONE, PRUNING, *PASSES, CHOSEN, ALL)
BATCHES = {"resnet50": 2, "transformer": 8, "transformer12": 8, "lstm": 16, "perceptron": 32}


class Way:
    """A session that rewrites the graph in one way, and what it took to get to its first step.

    Args:
        name: one of `WAYS`.
        graph: what is run.
        before: operations that are run once, one after the other.
        train_op: the step.
    """

    def __init__(self, name, graph, before, train_op):
        self.session = tf.Session(graph=graph, config=make_config(name, graph))
        start = time.process_time()
        for operation in before:
            self.session.run(operation)
        self.step = self.session.make_callable(train_op)
        self.step()
        self.prepared_secs = time.process_time() - start
        start = time.process_time()
        self.step()
        self.prepared_secs -= time.process_time() - start


def make_config(name, graph):
    """Return the configuration of a session that rewrites a graph in one way."""
    config = tf.ConfigProto(allow_soft_placement=True)
    provide_cpu_devices(config, graph)
    if name == CHOSEN:
        choose_rewrites(config, graph)
    elif name != ALL:
        rewrites = config.graph_options.rewrite_options
        rewrites.disable_meta_optimizer = name == NONE
        rewrites.optimizers.extend([PRUNING] if name == PRUNING else [PRUNING, name] if name in PASSES else [])
        rewrites.meta_optimizer_iterations = rewrites.ONE
    return config


def measure(model, towers, *, ways, rounds, steps):
    """Return the samples of a step in each way, the seconds of its preparation, and the number of operations."""
    with tf.Graph().as_default() as graph:
        train_op, copy_op = build(MODELS[model], towers, BATCHES[model])
        initializer = tf.global_variables_initializer()
        # The first session of a process also loads what all others find loaded.
        Way(NONE, graph, (initializer, copy_op), train_op).session.close()
        made = {name: Way(name, graph, (initializer, copy_op), train_op) for name in ways}
    samples = Samples()
    for _ in range(rounds):
        for name, way in made.items():
            way.step()
            start = time.process_time()
            for _ in range(steps):
                way.step()
            samples.add(name, (time.process_time() - start) / steps)
    for way in made.values():
        way.session.close()
    return samples, {name: way.prepared_secs for name, way in made.items()}, len(graph.get_operations())


def report(title, samples, prepared_secs, num_operations):
    """Print and return what each way costs and gains."""
    ratios = {name: samples.ratio(name, NONE) for name in prepared_secs}
    rows = [(name, prepared_secs[name], samples.median(name) * 1e3, ratios[name]) for name in prepared_secs]
    print_table(f"{title}, operations: {num_operations}", ("rewrites", "s to prepare", "ms a step", "over none"), rows)
    sys.stdout.flush()
    steps = samples.figures()
    return {"prepared_secs": prepared_secs, "steps": steps, "ratios": ratios, "operations": num_operations}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--models", nargs="*", choices=BATCHES, default=MODELS_BY_DEFAULT)
    parser.add_argument("--towers", type=int, nargs="*", default=[1, 2, 8], help="default: 1 2 8")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS, help="default: all; the first is 'none'")
    parser.add_argument("--rounds", type=int, default=7, help="default: 7")
    parser.add_argument("--steps", type=int, default=5, help="steps a round (default: 5)")
    options = parser.parse_args()
    ways = [NONE, *(way for way in options.ways if way != NONE)]
    figures = {}
    for model in options.models:
        for towers in options.towers:
            title = f"{model}, number of towers: {towers}"
            measured = measure(model, towers, ways=ways, rounds=options.rounds, steps=options.steps)
            figures[title] = report(title, *measured)
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
