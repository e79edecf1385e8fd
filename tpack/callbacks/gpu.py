"""What the callbacks that look at GPUs share: the GPUs, or one warning in place of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tpack.callbacks.base import Callback
from tpack.errors import DependencyError, DeviceError
from tpack.utils import logger
from tpack.utils.nvml import NvidiaDevice, NVMLContext


class GPUWatch(Callback):
    """Open NVIDIA's management library for the time of a training; where that fails, warn once and give no numbers.

    Args:
        devices: numbers of GPUs among those that ``CUDA_VISIBLE_DEVICES`` leaves to the process; None means all.
    """

    def __init__(self, devices: Sequence[int] | None) -> None:
        self._wanted = None if devices is None else list(devices)
        self._gpus: dict[int, NvidiaDevice] = {}
        self._library = ExitStack()

    def _before_train(self) -> None:
        try:
            visible = self._library.enter_context(NVMLContext()).visible_devices()
            self._gpus = dict(enumerate(visible)) if self._wanted is None else _choose(visible, self._wanted)
            self._measure()
        except (DeviceError, DependencyError) as error:
            self._give_up(error)

    def _measure(self) -> Any:
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
        raise DeviceError(f"wanted the GPUs {list(wanted)}, and {len(visible)} are visible to this process")
    return {index: visible[index] for index in wanted}
