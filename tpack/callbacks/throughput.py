"""How fast training goes."""

from __future__ import annotations

import time

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError


class ThroughputTracker(Callback):
    """Report the steps, or samples, per second of each epoch.

    What happens between the epochs does not count. The statistic is called ``Throughput (steps/sec)`` or ``Throughput
    (samples/sec)``.

    Args:
        samples_per_step: the number of samples that all towers together take in one step; None counts steps.

    Raises:
        ConfigError: ``samples_per_step`` is not positive.
    """

    _chief_only = False

    def __init__(self, samples_per_step: float | None = None) -> None:
        if samples_per_step is not None and samples_per_step <= 0:
            raise ConfigError(f"ThroughputTracker wants a positive samples_per_step, got {samples_per_step}")
        self._samples_per_step = samples_per_step
        self._started_at = 0.0
        self._first_step = 0
        self._steps_per_sec: float | None = None

    def _before_epoch(self) -> None:
        self._first_step = self.local_step
        self._started_at = time.perf_counter()

    def _after_epoch(self) -> None:
        self._steps_per_sec = (self.local_step - self._first_step) / (time.perf_counter() - self._started_at)

    def _trigger_epoch(self) -> None:
        if self._steps_per_sec is None:
            return
        if self._samples_per_step is None:
            self.trainer.monitors.put_scalar("Throughput (steps/sec)", self._steps_per_sec)
        else:
            samples_per_sec = self._steps_per_sec * self._samples_per_step
            self.trainer.monitors.put_scalar("Throughput (samples/sec)", samples_per_sec)
