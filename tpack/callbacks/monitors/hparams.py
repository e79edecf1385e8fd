"""Hyper-parameters in event files, for TensorBoard's page HParams.

The few fields of its plugin's message are encoded here, so that training works without TensorBoard installed.
TensorBoard reads event files in the order of their names, once: the beginning of a run has a name before all others,
its end a name with the time, as other event files.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.validation import check_arguments

_SUFFIX = ".hparams"
_DOUBLE, _BYTES = 1, 2
_STATUS = {"finished": 1, "failed": 2}


@check_arguments
class TensorBoardHParams(MonitorBase):
    """Show a run's hyper-parameters and last statistics on TensorBoard's page HParams.

    The statistics are those of `TFEventWriter` in the same directory. Numbers, booleans and texts are shown as such,
    other values as text. A resumed run replaces the former one.

    Args:
        hparams: the hyper-parameters, such as ``{"learning_rate": 0.1}``.
        logdir: the directory; the logger's unless given. Without either nothing is written.

    Example:
        TrainConfig(..., monitors=[*DEFAULT_MONITORS(), TensorBoardHParams({"learning_rate": 0.1, "depth": 18})])
    """

    def __init__(self, hparams: Mapping[str, Any], logdir: str | os.PathLike[str] | None = None) -> None:
        self._hparams = {str(name): value for name, value in hparams.items()}
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._has_begun = False

    def _setup_graph(self) -> None:
        self._logdir = self._logdir or logger.get_logger_dir()
        if self._logdir is None:
            logger.warning(
                f"{self} writes nothing: neither its logdir nor the logger's directory is set; use "
                "logger.set_logger_dir(path), or log_dir of TrainConfig or fit"
            )

    def _before_train(self) -> None:
        if self._logdir is None:
            return
        start = b"".join(_field(1, _entry(name, value)) for name, value in sorted(self._hparams.items()))
        start += _number(5, time.time())
        try:
            tf.gfile.MakeDirs(self._logdir)
            for former in tf.gfile.Glob(os.path.join(self._logdir, f"events.out.tfevents.*{_SUFFIX}")):
                tf.gfile.Remove(former)
            self._write(0, "session_start_info", _field(3, start))
        except tf.errors.OpError as error:
            raise CallbackError(f"{self} cannot write to {self._logdir}: {error.message}") from error
        self._has_begun = True

    def _after_train(self) -> None:
        # An interrupted run may be resumed and has no end yet.
        if self._has_begun and not self.trainer.interrupted:
            status = _STATUS["failed" if self.trainer.has_failed else "finished"]
            end = bytes([1 << 3, status]) + _number(2, time.time())
            self._write(int(time.time()), "session_end_info", _field(4, end))

    def _write(self, number: int, tag: str, message: bytes) -> None:
        """Write an event file with one message of the plugin."""
        plugin_data = tf.SummaryMetadata.PluginData(plugin_name="hparams", content=message)
        value = tf.Summary.Value(
            tag=f"_hparams_/{tag}",
            metadata=tf.SummaryMetadata(plugin_data=plugin_data),
            tensor=tf.make_tensor_proto([], tf.float32, [0]),
        )
        path = os.path.join(self._logdir or "", f"events.out.tfevents.{number:010d}.tpack{_SUFFIX}")
        now = time.time()
        with tf.python_io.TFRecordWriter(path) as file:
            file.write(tf.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
            file.write(tf.Event(wall_time=now, summary=tf.Summary(value=[value])).SerializeToString())


def _entry(name: str, value: object) -> bytes:
    """Encode an entry of a map from names to numbers, texts or booleans."""
    if isinstance(value, bool | np.bool_):
        content = bytes([4 << 3, int(value)])
    elif isinstance(value, Real):
        content = _number(2, float(value))
    else:
        content = _field(3, str(value).encode())
    return _field(1, name.encode()) + _field(2, content)


def _number(field: int, value: float) -> bytes:
    return bytes([field << 3 | _DOUBLE]) + struct.pack("<d", value)


def _field(field: int, content: bytes) -> bytes:
    """Encode a field of bytes, a text or a message."""
    size, digits = len(content), []
    while True:
        size, digit = size >> 7, size & 0x7F
        digits.append(digit | (0x80 if size else 0))
        if not size:
            return bytes([field << 3 | _BYTES, *digits]) + content
