"""Memory and utilization of GPUs, from NVIDIA's management library; free memory of the machine; peak memory on GPUs."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from contextlib import ExitStack

import psutil
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import DependencyError, DeviceError
from tpack.utils import logger
from tpack.utils.concurrency import StoppableThread
from tpack.utils.gpu import NvidiaDevice, NVMLContext
from tpack.utils.validation import check_arguments, check_count

INTERVAL_SECS = 1.0
"""The sampling interval."""


@check_arguments
class _GPUWatch(Callback):
    """The management library, open during a training; a failure is one warning, without statistics."""

    def __init__(self, devices: Sequence[int] | None) -> None:
        self._wanted = None if devices is None else [check_count(self, "devices", index, 0) for index in devices]
        self._gpus: dict[int, NvidiaDevice] = {}
        self._library = ExitStack()

    def _before_train(self) -> None:
        try:
            visible = self._library.enter_context(NVMLContext()).visible_devices()
            wanted = range(len(visible)) if self._wanted is None else self._wanted
            if max(wanted, default=-1) >= len(visible):
                raise DeviceError(f"got devices={list(wanted)}: expected numbers below {len(visible)}, of GPUs")
            self._gpus = {index: visible[index] for index in wanted}
            self._measure()
        except (DeviceError, DependencyError) as error:
            self._give_up(error)

    def _measure(self) -> object:
        """Query the GPUs once; called before training to find failures early."""
        raise NotImplementedError(f"{type(self).__name__} must override _measure")

    def _give_up(self, error: Exception) -> None:
        self._gpus = {}
        logger.warning(f"{self} reports nothing: {error}")

    def _after_train(self) -> None:
        self._gpus = {}
        try:
            self._library.close()
        except DeviceError as error:
            logger.warning(f"{self}: {error}")


@check_arguments
class GPUMemoryTracker(_GPUWatch):
    """Report, when triggered, all processes' GPU memory as ``GPUMemory(MB)/gpu:<k>``; warn once without GPUs.

    TensorFlow reserves memory, so for the model's own need see `PeakMemoryTracker`.

    Args:
        devices: numbers of GPUs among those in ``CUDA_VISIBLE_DEVICES``.
    """

    def __init__(self, devices: Sequence[int] = (0,)) -> None:
        super().__init__(devices)

    def _measure(self) -> dict[int, float]:
        return {index: gpu.memory()["used"] / 1e6 for index, gpu in self._gpus.items()}

    def _trigger(self) -> None:
        try:
            for index, megabytes in self._measure().items():
                self.trainer.monitors.put_scalar(f"GPUMemory(MB)/gpu:{index}", megabytes)
        except DeviceError as error:
            self._give_up(error)


@check_arguments
class GPUUtilizationTracker(_GPUWatch):
    """Report after each epoch the percentage of time in which a kernel ran, as ``GPUUtil/<k>``; warn once without GPUs.

    A query covers the last second at most, so a thread samples once a second during the epoch; the mean is reported.

    Args:
        devices: numbers of GPUs among those in ``CUDA_VISIBLE_DEVICES``; all unless given.
    """

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        super().__init__(devices)
        self._samples: list[dict[int, int]] = []
        self._sampler: StoppableThread | None = None

    def _measure(self) -> dict[int, int]:
        return {index: gpu.utilization()["gpu"] for index, gpu in self._gpus.items()}

    def _sample(self) -> None:
        try:
            values = self._measure()
        except DeviceError as error:
            self._give_up(error)
            return
        if values:
            self._samples.append(values)

    def _before_epoch(self) -> None:
        self._samples = []
        if self._gpus:
            stop = threading.Event()
            options = {"target": self._sample_until, "args": (stop,), "name": type(self).__name__, "daemon": True}
            self._sampler = StoppableThread(stop, **options)
            self._sampler.start()

    def _sample_until(self, stop: threading.Event) -> None:
        while not stop.wait(INTERVAL_SECS):
            self._sample()

    def _after_epoch(self) -> None:
        # An epoch may be shorter than the interval.
        self._sample()
        self._stop_sampler()

    def _stop_sampler(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.stop()
            sampler.join()

    def _trigger_epoch(self) -> None:
        for index in self._gpus:
            self.trainer.monitors.put_scalar(
                f"GPUUtil/{index}", statistics.fmean(values[index] for values in self._samples)
            )

    def _after_train(self) -> None:
        self._stop_sampler()
        super()._after_train()


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
