"""The average of a tensor over the last steps, each of which weighs the same."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError, ConfigError


class SimpleMovingAverage(Callback):
    """Fetch scalars together with every step and report, when triggered, their means over the last steps.

    Use it in place of `add_moving_summary` where old values are to be forgotten altogether. The statistics are called
    ``<name>/SMA``.

    Args:
        tensors: names of scalar tensors, in the graph or in the first training tower.
        window_size: how many steps.

    Raises:
        ConfigError: ``window_size`` is below 1.
    """

    def __init__(self, tensors: Sequence[str], window_size: int) -> None:
        if window_size < 1:
            raise ConfigError(f"SimpleMovingAverage wants a window of at least 1 step, got {window_size}")
        self._names = [tensors] if isinstance(tensors, str) else list(tensors)
        self._windows: list[deque[float]] = [deque(maxlen=window_size) for _ in self._names]
        self._fetches: Any = None

    def _setup_graph(self) -> None:
        tensors = self.get_tensors_maybe_in_tower(self._names)
        for tensor in tensors:
            if tensor.shape.rank != 0:
                raise CallbackError(f"{self} wants scalars, got {tensor.name} of shape {tensor.shape}")
        self._fetches = tf.train.SessionRunArgs(tuple(tensors))

    def _before_run(self, ctx: Any) -> Any:
        return self._fetches

    def _after_run(self, ctx: Any, values: Any) -> None:
        if values.results is not None:
            for window, value in zip(self._windows, values.results, strict=True):
                window.append(float(value))

    def _trigger(self) -> None:
        for name, window in zip(self._names, self._windows, strict=True):
            if window:
                self.trainer.monitors.put_scalar(f"{name}/SMA", statistics.fmean(window))
