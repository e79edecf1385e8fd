"""Put an operation where another tensor is.

The result of a reduction belongs on the device of the gradient that it replaces, whatever ``tf.device`` scope the
caller has open. A gradient that nobody placed has no device name to repeat, so its partner is colocated with it
instead.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def on_device(device: str) -> Iterator[None]:
    """Place new operations on ``device`` alone, ignoring every scope outside, colocation included."""
    with tf.get_default_graph().colocate_with(None, ignore_existing=True), tf.device(device):
        yield


@contextlib.contextmanager
def on_device_of(value: Any) -> Iterator[None]:
    """Place new operations where ``value``, a tensor, ``IndexedSlices`` or variable, is."""
    placed = on_device(value.device) if value.device else value.graph.colocate_with(value.op, ignore_existing=True)
    with placed:
        yield


def copy_to_each(total: Any, column: Sequence[Any]) -> list[Any]:
    """Copy ``total`` to the device of every member of ``column``.

    Copies between CPU devices of one session share one buffer. They stay different tensors, because an optimizer of
    another tower must find its input on its own device.
    """
    copies = []
    for member in column:
        with on_device_of(member):
            copies.append(tf.identity(total))
    return copies
