"""What both processes of `startup.py` share: the data, the optimizer, and the clock.

Each goes from the launch to the second step in its own way and prints, as JSON, how long each phase took. The argument
LAUNCHED_AT is the time, in seconds since 1970, at which the process was started.
"""

import json
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
from startup import IMAGE_SIZE, PHASES

IMPORTS, GRAPH, CALLBACKS, SESSION, VARIABLES, BEFORE_TRAINING, FIRST_STEP, SECOND_STEP = PHASES
SIGNATURE = (
    tf.TensorSpec([1, IMAGE_SIZE, IMAGE_SIZE, 3], tf.float32, "image"),
    tf.TensorSpec([1], tf.int32, "label"),
)


class Phases:
    """Seconds of each phase; one begins where the last one ended."""

    def __init__(self, launched_at):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._before = launched_at

    def done(self, name):
        """End the phase ``name``."""
        now = time.time()
        self.seconds[name] = now - self._before
        self._before = now


def make_batch():
    rng = np.random.default_rng(0)
    image = rng.standard_normal(SIGNATURE[0].shape, np.float32)
    return [tf.constant(image), tf.constant([0], tf.int32)]


def make_optimizer():
    return tf.train.MomentumOptimizer(0.01, 0.9)


def main(train):
    """Call ``train(towers, phases)`` with what the command line says, and print the times."""
    towers, launched_at = sys.argv[1:]
    phases = Phases(float(launched_at))
    phases.done(IMPORTS)
    train(int(towers), phases)
    print(json.dumps(phases.seconds))
