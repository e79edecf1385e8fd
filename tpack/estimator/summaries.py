"""Write what TensorBoard shows of an Estimator: the summaries of training, and the results of evaluations."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tfutils.summary_proto import create_scalar_summary


@contextmanager
def event_writer(directory: str) -> Iterator[Any]:
    """Open a new event file in a directory for a block. A graph has to be the default one."""
    # TensorFlow names the file by the second, and of two in one second the later one would take the place of the other.
    writer = tf.summary.FileWriter(directory, filename_suffix=f".{time.time_ns()}")
    try:
        yield writer
    finally:
        writer.close()


def write_results(directory: str, results: Mapping[str, Any], step: int) -> None:
    """Write the numbers among the results of an evaluation to an event file, as one event.

    Args:
        directory: where to; it is made.
        results: name to value.
        step: the global step of the model.
    """
    os.makedirs(directory, exist_ok=True)
    summary = tf.Summary()
    for name, value in results.items():
        if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number) and name != "global_step":
            summary.MergeFrom(create_scalar_summary(name, float(value)))
    with tf.Graph().as_default(), event_writer(directory) as writer:
        writer.add_summary(summary, step)
