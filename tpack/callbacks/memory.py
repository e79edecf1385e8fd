"""Free memory of the machine, and peak memory of the training on GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import psutil
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count


class HostMemoryTracker(Callback):
    """Report, when triggered, the machine's free and reclaimable memory as ``HostFreeMemory (GB)``."""

    _chief_only = False

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("HostFreeMemory (GB)", psutil.virtual_memory().available / 1e9)


@check_arguments
class PeakMemoryTracker(Callback):
    """Report after each epoch the peak memory of TensorFlow's tensors on GPUs, as ``PeakMemory(MB)/gpu:<k>``.

    The peak covers the epoch's steps and the callbacks before this one. Missing GPUs are one warning.

    Args:
        devices: numbers of GPUs as TensorFlow counts them.
    """

    def __init__(self, devices: Sequence[int] = (0,)) -> None:
        self._wanted = [check_count(self, "devices", index, 0) for index in devices]
        self._devices: list[int] = []

    def _before_train(self) -> None:
        names = [device.name for device in self.trainer.sess.list_devices()]
        self._devices = [k for k in self._wanted if any(name.endswith(f"device:GPU:{k}") for name in names)]
        missing = [k for k in self._wanted if k not in self._devices]
        if missing:
            logger.warning(f"{self} reports nothing of GPU {', '.join(map(str, missing))}: the session has none.")

    def _before_epoch(self) -> None:
        for k in self._devices:
            tf.config.experimental.reset_memory_stats(f"GPU:{k}")

    def _trigger_epoch(self) -> None:
        for k in self._devices:
            peak = tf.config.experimental.get_memory_info(f"GPU:{k}")["peak"]
            self.trainer.monitors.put_scalar(f"PeakMemory(MB)/gpu:{k}", peak / 1e6)
