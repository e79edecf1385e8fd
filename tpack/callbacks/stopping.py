"""End training before its last epoch: when it stops improving, or when its time is over."""

from __future__ import annotations

import datetime
import math
import re
import time

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.stat_history import Direction, StatisticReader, former_values
from tpack.errors import ConfigError, StopTraining
from tpack.utils.validation import check_arguments, check_choice, check_count, check_number, check_text, mismatch

MODES = ("min", "max")


@check_arguments
class EarlyStopping(Callback):
    """Stop training when a statistic has stopped improving.

    It is triggered after the callbacks that report, and does nothing without a new value; the rest of the epoch is
    still done and saved. NaN is not an improvement. A resumed run counts the values of former runs in ``stats.json`` of
    the logger's directory, and stops as without an interruption. To keep the best weights, add `MinSaver` or
    `MaxSaver`.

    Args:
        monitor: the statistic.
        patience: this many values in a row without an improvement end training; 0 means 1.
        mode: ``"min"`` or ``"max"``, the better direction. By default the name decides: accuracies and scores are
            better when larger, losses and errors when smaller. The log tells which.
        min_delta: a value must be better by more than this.
        baseline: values must be better than this too.
        start_from_epoch: ignore earlier epochs.

    Raises:
        ConfigError: an argument is invalid, or the mode is not given and the name is not clear.

    Example:
        ``EarlyStopping("validation_error", patience=5)``

    Source:
        The callback of this name in Keras, which ignores resumptions.
    """

    reads_statistics = True

    def __init__(
        self,
        monitor: str,
        patience: int = 0,
        mode: str | None = None,
        min_delta: float = 0.0,
        *,
        baseline: float | None = None,
        start_from_epoch: int = 0,
    ) -> None:
        self._monitor = check_text(self, "monitor", monitor)
        self._patience = check_count(self, "patience", patience, 0)
        given = None if mode is None else check_choice(self, "mode", mode, MODES)
        self._min_delta = check_number(self, "min_delta", min_delta, 0)
        self._first_epoch = check_count(self, "start_from_epoch", start_from_epoch, 0)
        self._direction = Direction(self, monitor, given)
        # The best value so far and the baseline, signed so that smaller is better.
        self._best = math.inf
        self._baseline = math.inf
        if baseline is not None:
            self._baseline = self._direction.sign * check_number(self, "baseline", baseline)
        self._num_without_improvement = 0
        self._statistic = StatisticReader(self, monitor)

    def _setup_graph(self) -> None:
        self._direction.log()

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
                f"was {self._direction.sign * self._best:.6g}"
            )

    def _after_train(self) -> None:
        self._statistic.warn_if_never_reported()

    def _take(self, value: float) -> None:
        number = self._direction.sign * value
        self._num_without_improvement += 1
        if self._is_better(number, self._best):
            self._best = number
            if self._is_better(number, self._baseline):
                self._num_without_improvement = 0

    def _is_better(self, number: float, other: float) -> bool:
        return number < other - self._min_delta

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._monitor})"


@check_arguments
class MaxTime(Callback):
    """End training when its time is over, after the current step, and save it, for jobs with a time limit.

    It ends like a signal: `ModelSaver` saves, the process ends with code 0, and a run with `AutoResumeTrainConfig`
    continues, even in the middle of an epoch.

    Args:
        limit: time from the callback's construction: ``"hours:minutes:seconds"`` or ``"days-hours:minutes:seconds"``,
            as in Slurm, a ``timedelta``, or seconds. Leave time for saving.

    Raises:
        ConfigError: It is not a time, or not positive.

    Example:
        ``MaxTime("11:30:00")`` in a job of twelve hours
    """

    _chief_only = False

    def __init__(self, limit: str | float | datetime.timedelta) -> None:
        if isinstance(limit, str):
            parts = re.fullmatch(r"(?:(\d+)-)?(\d+):([0-5]?\d):([0-5]?\d)", limit.strip())
            if parts is None:
                raise ConfigError(mismatch(self, "limit", limit, "'hours:minutes:seconds', such as '11:30:00'"))
            days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
            limit = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        secs = limit.total_seconds() if isinstance(limit, datetime.timedelta) else limit
        self.limit_secs = check_number(self, "limit", secs, 0, is_low_allowed=False)
        self._deadline = time.monotonic() + self.limit_secs

    def _trigger_step(self) -> None:
        if time.monotonic() >= self._deadline:
            limit = datetime.timedelta(seconds=self.limit_secs)
            raise StopTraining(f"its time of {limit} is over", to_be_continued=True)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()
