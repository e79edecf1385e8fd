"""Tell how long training will still take."""

from __future__ import annotations

import statistics
import time
from collections import deque

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.duration import humanize_time_delta


class EstimatedTimeLeft(Callback):
    """Log after each epoch how long the remaining ones will take, going by the last ones.

    Args:
        last_k_epochs: how many epochs to go by.
        median: take the median of their times, which one slow epoch does not disturb; else the mean.

    Raises:
        ConfigError: ``last_k_epochs`` is below 1.
    """

    def __init__(self, last_k_epochs: int = 5, median: bool = True) -> None:
        if last_k_epochs < 1:
            raise ConfigError(f"EstimatedTimeLeft wants at least 1 epoch to go by, got {last_k_epochs}")
        self._seconds: deque[float] = deque(maxlen=last_k_epochs)
        self._average = statistics.median if median else statistics.fmean
        self._last = 0.0

    def _before_train(self) -> None:
        self._last = time.perf_counter()

    def _trigger_epoch(self) -> None:
        now = time.perf_counter()
        self._seconds.append(now - self._last)
        self._last = now
        epochs_left = self.trainer.max_epoch - self.epoch_num
        if epochs_left > 0:
            logger.info(f"Estimated time left: {humanize_time_delta(epochs_left * self._average(self._seconds))}.")
