"""How much memory of GPUs is taken."""

from __future__ import annotations

from collections.abc import Sequence

from tpack.callbacks.gpu import GPUWatch
from tpack.errors import DeviceError


class GPUMemoryTracker(GPUWatch):
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
