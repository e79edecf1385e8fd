"""End training before its last epoch: when it does not get better any more, or when its time is over."""

from __future__ import annotations

import datetime
import math
import re
import time

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.stat_history import Direction, StatisticReader, former_values
from tpack.errors import ConfigError, StopTraining
from tpack.utils.validation import check_arguments, check_choice, check_count, check_number, check_text

MODES = ("min", "max")


@check_arguments
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
        mode: ``"min"`` if the statistic is better when it is smaller, ``"max"`` if it is when it is larger. It need not
            be given where the name says it: an accuracy, a score and the like are better when larger, a loss, an error
            and the like when smaller. The log says which it is.
        min_delta: a value that is better by no more than this is no improvement.
        baseline: values that are not better than this are no improvement either.
        start_from_epoch: leave out what is reported before this epoch.

    Raises:
        ConfigError: an argument is no such thing, a number is negative or NaN, or the mode is not given and the name
            does not say it.

    Example:
        ``EarlyStopping("validation_error", patience=5)``

    Source:
        The callback of this name in Keras, which does not know of a resumption.
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
        self._direction = Direction(self, monitor, given, "give mode='min' or mode='max'")
        # The best value so far, and the baseline, as numbers of which the smaller is the better.
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
        self._statistic.tell_if_none_came()

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
    """End training in order when its time is over, after the step that is being made, and save what was trained.

    It is for jobs whose time a scheduler limits, and ends as a signal would: `ModelSaver` saves, and a run with
    `AutoResumeTrainConfig` goes on where this one ended, in the middle of an epoch. The process then ends with code 0.

    Args:
        limit: how long, counted from when the callback is made: ``"hours:minutes:seconds"`` or
            ``"days-hours:minutes:seconds"``, as Slurm writes them, a ``timedelta``, or seconds. Leave the job some time
            to save and to end.

    Raises:
        ConfigError: It is no time, or not positive.

    Example:
        ``MaxTime("11:30:00")`` in a job of twelve hours
    """

    _chief_only = False

    def __init__(self, limit: str | float | datetime.timedelta) -> None:
        self.limit_secs = _seconds(limit)
        self._deadline = time.monotonic() + self.limit_secs

    def _trigger_step(self) -> None:
        if time.monotonic() >= self._deadline:
            limit = datetime.timedelta(seconds=self.limit_secs)
            raise StopTraining(f"its time of {limit} is over", to_be_continued=True)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()


def _seconds(limit: str | float | datetime.timedelta) -> float:
    """Return a limit in seconds."""
    if isinstance(limit, str):
        parts = re.fullmatch(r"(?:(\d+)-)?(\d+):([0-5]?\d):([0-5]?\d)", limit.strip())
        if parts is None:
            raise ConfigError(f"MaxTime got limit={limit!r}: expected 'hours:minutes:seconds', such as '11:30:00'")
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        limit = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    secs = limit.total_seconds() if isinstance(limit, datetime.timedelta) else limit
    return check_number("MaxTime", "limit", secs, 0, is_low_allowed=False)
