"""How busy GPUs are.

One look tells of the last second at most. So a thread looks once a second while an epoch runs, and what is reported is
the mean.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tpack.callbacks.gpu import GPUWatch
from tpack.errors import DeviceError
from tpack.utils.threads import StoppableThread

INTERVAL_SECS = 1.0
"""How often the GPUs are asked."""


class GPUUtilizationTracker(GPUWatch):
    """Report after each epoch the percentage of its time in which a kernel ran, as ``GPUUtil/<k>``.

    On a machine without GPUs there is one warning, and nothing is reported.

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
