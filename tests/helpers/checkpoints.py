"""Make variables from arrays, and checkpoints with known content."""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf


def make_variables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Create one resource variable for each array in the current graph, initialised with it."""
    return {name: tf.get_variable(name, initializer=value, use_resource=True) for name, value in values.items()}


def save_checkpoint(directory: Any, values: Mapping[str, Any], step: int = 1) -> str:
    """Save arrays as the checkpoint `model-<step>` of a directory and return its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.Saver(make_variables(values), max_to_keep=100)
        session.run(tf.global_variables_initializer())
        return str(saver.save(session, os.path.join(directory, "model"), global_step=step))
