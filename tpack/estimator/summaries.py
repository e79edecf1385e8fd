"""Write what TensorBoard shows of an Estimator: the summaries of training, and the results of evaluations."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tfutils.summary_proto import create_scalar_summary


@contextmanager
def event_writer(directory: str) -> Iterator[Any]:
    """Open an event file in a directory for a block. A graph has to be the default one."""
    writer = tf.summary.FileWriter(directory)
    try:
        yield writer
    finally:
        writer.close()


def write_results(directory: str, results: Mapping[str, Any], step: int) -> None:
    """Write the numbers among the results of an evaluation to an event file.

    Args:
        directory: where to; it is made.
        results: name to value.
        step: the global step of the model.
    """
    os.makedirs(directory, exist_ok=True)
    with tf.Graph().as_default(), event_writer(directory) as writer:
        for name, value in results.items():
            if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number) and name != "global_step":
                writer.add_summary(create_scalar_summary(name, float(value)), step)
