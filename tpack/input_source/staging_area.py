"""A small buffer on a device: tensors are staged in one run and taken out in a later one."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf


class StagingArea:
    """One buffer, on the current device, that is filled with ``tensors``.

    Args:
        tensors: what each `stage` puts in.

    Attributes:
        stage: the operation that puts the values of the tensors in.
        outputs: the values that were put in first; to run them takes them out, and waits for some to be there.
        clear: the operation that empties the area.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        dtypes = [tensor.dtype for tensor in tensors]
        # Areas of one session and device are told apart by this name alone.
        name = tf.get_default_graph().unique_name("staging_area", mark_as_used=True)
        self.stage = tf.raw_ops.Stage(values=list(tensors), shared_name=name, name="stage")
        self.outputs = list(tf.raw_ops.Unstage(dtypes=dtypes, shared_name=name, name="unstage"))
        self.clear = tf.raw_ops.StageClear(dtypes=dtypes, shared_name=name, name="clear")
        for output, tensor in zip(self.outputs, tensors, strict=True):
            output.set_shape(tensor.shape)
