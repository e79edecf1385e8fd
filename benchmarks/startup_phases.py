"""What both processes of `startup.py` share: the optimizer, the command line and the clock.

Each goes from the launch to the second step in its own way and prints, as JSON, how long each phase took. The argument
LAUNCHED_AT is the time, in seconds since 1970, at which the process was started.
"""

import argparse
import json
import time

import tensorflow.compat.v1 as tf
from models_shared import MODELS
from startup import CPU, NUM_OPERATIONS, PHASES

IMPORTS, GRAPH, CALLBACKS, VARIABLES, BEFORE_TRAINING, FIRST_STEP, SECOND_STEP = PHASES
BATCH = 1
"""Examples in each tower: what is measured depends on operations, not on what they compute."""


class Phases:
    """Seconds of each phase; one begins where the last one ended."""

    def __init__(self, launched_at):
        self.figures = dict.fromkeys(PHASES, 0.0)
        self._before = launched_at

    def done(self, name):
        """End the phase ``name``."""
        now = time.time()
        self.figures[name] = now - self._before
        self._before = now
        if name == FIRST_STEP:
            self.figures[CPU] = time.process_time()

    def built(self, graph):
        """Take note of a graph that is complete."""
        self.figures[NUM_OPERATIONS] = len(graph.get_operations())


def make_optimizer():
    return tf.train.MomentumOptimizer(0.01, 0.9)


def main(train):
    """Call ``train(model, phases, options)`` with what the command line says, and print the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("towers", type=int)
    parser.add_argument("launched_at", type=float)
    parser.add_argument("--tower-building", default="auto")
    parser.add_argument("--grappler", default="auto")
    options = parser.parse_args()
    phases = Phases(options.launched_at)
    phases.done(IMPORTS)
    train(MODELS[options.model], phases, options)
    print(json.dumps(phases.figures))
