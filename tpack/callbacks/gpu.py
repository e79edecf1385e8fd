"""How much memory of GPUs is taken and how busy they are, as NVIDIA's management library tells.

Both trackers open the library through `_GPUWatch`, which says once why there are no numbers where it cannot be opened.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tpack.callbacks.base import Callback
from tpack.errors import DependencyError, DeviceError
from tpack.utils import logger
from tpack.utils.concurrency import StoppableThread
from tpack.utils.gpu import NvidiaDevice, NVMLContext
from tpack.utils.validation import check_arguments, check_count

INTERVAL_SECS = 1.0
"""How often the GPUs are asked."""


@check_arguments
class _GPUWatch(Callback):
    """Open NVIDIA's management library for the time of a training; where that fails, warn once and give no numbers.

    Args:
        devices: numbers of GPUs among those that ``CUDA_VISIBLE_DEVICES`` leaves to the process; None means all.
    """

    def __init__(self, devices: Sequence[int] | None) -> None:
        self._wanted = None if devices is None else [check_count(self, "devices", index, 0) for index in devices]
        self._gpus: dict[int, NvidiaDevice] = {}
        self._library = ExitStack()

    def _before_train(self) -> None:
        try:
            visible = self._library.enter_context(NVMLContext()).visible_devices()
            self._gpus = dict(enumerate(visible)) if self._wanted is None else _choose(visible, self._wanted)
            self._measure()
        except (DeviceError, DependencyError) as error:
            self._give_up(error)

    def _measure(self) -> object:
        """Ask the GPUs once; what they do not tell is known before training then."""
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


def _choose(visible: list[NvidiaDevice], wanted: Sequence[int]) -> dict[int, NvidiaDevice]:
    missing = [index for index in wanted if not 0 <= index < len(visible)]
    if missing:
        raise DeviceError(f"expected the GPUs {list(wanted)}, and {len(visible)} are visible to this process")
    return {index: visible[index] for index in wanted}


@check_arguments
class GPUMemoryTracker(_GPUWatch):
    """Report, when triggered, the memory that all processes together use on GPUs, as ``GPUMemory(MB)/gpu:<k>``.

    TensorFlow takes memory in advance, so this is not what the model needs; that is `PeakMemoryTracker`'s. On a machine
    without GPUs there is one warning, and nothing is reported.

    Args:
        devices: numbers of GPUs among those that ``CUDA_VISIBLE_DEVICES`` leaves to the process.
    """

    def __init__(self, devices: Sequence[int] = (0,)) -> None:
        super().__init__(devices)

    def _measure(self) -> dict[int, float]:
        return {index: gpu.memory()["used"] / 1e6 for index, gpu in self._gpus.items()}

    def _trigger(self) -> None:
        try:
            used = self._measure()
        except DeviceError as error:
            self._give_up(error)
            return
        for index, megabytes in used.items():
            self.trainer.monitors.put_scalar(f"GPUMemory(MB)/gpu:{index}", megabytes)


@check_arguments
class GPUUtilizationTracker(_GPUWatch):
    """Report after each epoch the percentage of its time in which a kernel ran, as ``GPUUtil/<k>``.

    One look tells of the last second at most. So a thread looks once a second while an epoch runs, and what is reported
    is the mean. On a machine without GPUs there is one warning, and nothing is reported.

    Args:
        devices: numbers of GPUs among those that ``CUDA_VISIBLE_DEVICES`` leaves to the process; all unless given.
    """

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        super().__init__(devices)
        self._samples: list[dict[int, int]] = []
        self._sampler: _Sampler | None = None

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
            self._sampler = _Sampler(self._sample)
            self._sampler.start()

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


class _Sampler(StoppableThread):
    """Calls a function at the end of each interval."""

    def __init__(self, func: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="GPUUtilizationTracker")
        self._func = func

    def run(self) -> None:
        """Call the function until stopped."""
        while not self._stop_event.wait(INTERVAL_SECS):
            self._func()
