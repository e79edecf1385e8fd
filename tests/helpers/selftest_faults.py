"""Faults of devices, planted in the child process that runs the checks of ``tpack selftest``, then its `serve`.

Each function takes the place of `tpack.selftest.runner.serve`, as ``run_selftest(entry=...)``.
"""

import os
import signal
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.algorithms import one_device
from tpack.selftest import devices
from tpack.selftest.runner import serve
from tpack.tfutils.sesscreate import NewSessionCreator

FAULTY = 2
"""The number of the faulty device."""

DEVICE = f"/device:CPU:{FAULTY}"


def serve_faulty_devices(**pipes: Any) -> int:
    """Serve where one device computes wrong, one tower falls back to the CPU, and one reducer loses a device."""
    _compute_wrong()
    _fall_back()
    _lose_a_device()
    return serve(**pipes)


def serve_hanging_copies(**pipes: Any) -> int:
    """Serve where copies wait for ever inside of TensorFlow, and the arithmetic ends the process."""
    devices.CopyRates.table = _wait_for_ever
    devices.check_arithmetic = lambda machine: os.kill(os.getpid(), signal.SIGKILL)
    return serve(**pipes)


def _compute_wrong() -> None:
    multiply = tf.matmul

    def wrong(*args: Any, **kwargs: Any) -> tf.Tensor:
        product = multiply(*args, **kwargs)
        return product + 1.0 if product.device == DEVICE else product

    tf.matmul = wrong


def _fall_back() -> None:
    create = NewSessionCreator.create_session

    def create_session(self: Any) -> tf.Session:
        for op in tf.get_default_graph().get_operations():
            if op.name.startswith(f"tower{FAULTY}/") and op.type.startswith(("Conv2D", "MatMul")):
                op._set_device("/device:CPU:0")
        return create(self)

    NewSessionCreator.create_session = create_session


def _lose_a_device() -> None:
    add_all = one_device.sum_column
    one_device.sum_column = lambda column, op: add_all([*column[:FAULTY], *column[FAULTY + 1 :]], op)


def _wait_for_ever(*_: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.FIFOQueue(1, [tf.float32]).dequeue())
