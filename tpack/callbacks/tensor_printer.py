"""Log the values of tensors after every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpack.callbacks.tensors import ProcessTensors
from tpack.utils import logger


class TensorPrinter(ProcessTensors):
    """Log tensors after every step; numpy shortens those with many elements.

    Args:
        names: names of tensors, in the graph or in the first training tower.

    Raises:
        CallbackError: ``names`` is one string.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._log)

    def _log(self, *values: Any) -> None:
        for name, value in zip(self._names, values, strict=True):
            logger.info(f"{name}: {value}")
