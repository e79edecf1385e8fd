"""Write the values of tensors to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.callbacks.tensors import ProcessTensors
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.fs import atomic_write


class DumpTensors(ProcessTensors):
    """Write tensors to ``DumpTensor-<global step>.npz`` in the logger's directory after every step.

    The names are the keys: ``dict(numpy.load(path))`` gives the arrays back.

    Args:
        names: names of tensors, in the graph or in the first training tower.

    Raises:
        CallbackError: ``names`` is one string.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._note)
        self._values: tuple[Any, ...] | None = None
        self._dir = ""

    def _setup_graph(self) -> None:
        super()._setup_graph()
        directory = logger.get_logger_dir()
        if directory is None:
            raise CallbackError(f"{self} writes into the logger's directory, and none is set (logger.set_logger_dir)")
        self._dir = directory

    def _note(self, *values: Any) -> None:
        self._values = values

    def _trigger_step(self) -> None:
        # The step is counted by now, so that the file carries the number of the step that made the values.
        if self._values is not None:
            values, self._values = self._values, None
            with atomic_write(os.path.join(self._dir, f"DumpTensor-{self.global_step}.npz"), "wb") as file:
                np.savez(file, **dict(zip(self._names, values, strict=True)))


DumpTensor = DumpTensors
