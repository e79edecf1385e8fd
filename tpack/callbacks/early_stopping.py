"""End training when it does not get better any more."""

from __future__ import annotations

import math

from tpack.callbacks.base import Callback
from tpack.callbacks.statistics import StatisticReader, former_values
from tpack.errors import ConfigError, StopTraining

MODES = ("min", "max")


class EarlyStopping(Callback):
    """Stop training when a statistic has not improved for some time.

    It is triggered after the callbacks that report statistics, and does nothing when the statistic got no new value.
    Everything else of that epoch is still done, so that it is saved and reported. NaN is no improvement.

    A resumed run counts what a former run reported in ``stats.json`` of the logger's directory, so that it stops when
    it would have stopped without the interruption. To keep the best weights and not the last ones, use `MinSaver` or
    `MaxSaver` beside it.

    Args:
        monitor: the statistic.
        patience: this many values in a row without an improvement end training; 0 means the same as 1.
        mode: ``"min"`` if the statistic is better when it is smaller, else ``"max"``.
        min_delta: a value that is better by no more than this is no improvement.
        baseline: values that are not better than this are no improvement either.
        start_from_epoch: leave out what is reported before this epoch.

    Raises:
        ConfigError: the mode is another one, or ``patience`` or ``min_delta`` is negative.

    Example:
        ``EarlyStopping("validation_error", patience=5)``

    Source:
        The callback of this name in Keras, which guesses the mode and does not know of a resumption.
    """

    reads_statistics = True

    def __init__(
        self,
        monitor: str,
        patience: int = 0,
        mode: str = "min",
        min_delta: float = 0.0,
        *,
        baseline: float | None = None,
        start_from_epoch: int = 0,
    ) -> None:
        if mode not in MODES:
            raise ConfigError(f"EarlyStopping wants a mode of 'min' or 'max', got {mode!r}")
        if patience < 0 or min_delta < 0:
            raise ConfigError(
                f"EarlyStopping wants patience and min_delta that are not negative, got {patience} and {min_delta}"
            )
        self._monitor = monitor
        self._patience = patience
        self._sign = -1.0 if mode == "max" else 1.0
        self._min_delta = min_delta
        # The best value so far, and the baseline, as numbers of which the smaller is the better.
        self._best = math.inf
        self._baseline = math.inf if baseline is None else self._sign * baseline
        self._first_epoch = start_from_epoch
        self._num_without_improvement = 0
        self._statistic = StatisticReader(self, monitor)

    def _before_train(self) -> None:
        for value in former_values(self.trainer, self._monitor, from_epoch=self._first_epoch):
            self._take(value)

    def _trigger(self) -> None:
        new = self._statistic.new_values()
        if not new or self.epoch_num < self._first_epoch:
            return
        self._take(new[-1])
        if self._num_without_improvement >= max(self._patience, 1):
            raise StopTraining(
                f"{self._monitor} has not improved over its last {self._num_without_improvement} values, the best one "
                f"was {self._sign * self._best:.6g}"
            )

    def _take(self, value: float) -> None:
        number = self._sign * value
        self._num_without_improvement += 1
        if self._is_better(number, self._best):
            self._best = number
            if self._is_better(number, self._baseline):
                self._num_without_improvement = 0

    def _is_better(self, number: float, other: float) -> bool:
        return number < other - self._min_delta

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._monitor})"
