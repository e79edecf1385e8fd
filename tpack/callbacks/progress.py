"""How far training is and how fast it goes: a progress bar, the throughput, and the time that is left."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.step.step_timer import StepTimer
from tpack.tower.names import op_and_tensor_name
from tpack.types import Counters
from tpack.utils import logger
from tpack.utils.progress import JOB_REFRESH_SECS, get_tqdm, get_tqdm_kwargs, launcher_line
from tpack.utils.timer import humanize_time_delta
from tpack.utils.validation import check_arguments, check_count, check_number


@check_arguments
class ProgressBar(Callback):
    """Show how far the epoch is and how fast it goes.

    It costs a step one look at the clock: the bar is drawn, and the tensors it shows are fetched, only when its refresh
    interval has passed. Where XLA compiles steps they are fetched in each, so that all steps are the same.

    Under a launcher that shows one bar for all processes, as ``tpack launch`` does on a terminal, the bar goes into the
    file of the process, and the launcher is told how far this process is.

    Args:
        names: names of scalar tensors whose values in the last step are shown behind the bar. None shows what the
            trainer knows of each step: the cost, which is the mean of the towers' costs, and what a `KerasModel` has.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._shows_statistics = names is None
        self._names = [op_and_tensor_name(name)[1] for name in names or ()]
        self._labels = [op_and_tensor_name(name)[0].rsplit("/", 1)[-1] for name in names or ()]
        self._fetches: list[tf.Tensor] | None = None
        self._in_each_step = False
        self._loop: Counters
        self._bar: Any = None
        self._line = launcher_line()
        self._interval = 0.0
        self._began_at = 0.0
        self._due_at = 0.0
        self._got_values = False
        self._has_waited = False

    def _setup_graph(self) -> None:
        self._loop, self._in_each_step = self.trainer.loop, self.trainer.is_compiled
        if self._names:
            self._fetches = self.get_tensors_maybe_in_tower(self._names)
        elif self._shows_statistics:
            shown = dict(self.trainer.statistics) or dict(zip(["cost"], self.trainer.costs, strict=False))
            self._labels, self._fetches = list(shown), list(shown.values()) or None

    def _before_epoch(self) -> None:
        own_interval = get_tqdm_kwargs()["mininterval"]
        is_told = self._line is not None
        self._interval = JOB_REFRESH_SECS if is_told else own_interval
        # The bar is told of new steps only when it is to be drawn, so it need not look at the clock itself; unless the
        # launcher is told more often than that.
        interval = own_interval if is_told else 0
        self._bar = get_tqdm(
            total=self.trainer.steps_per_epoch, initial=self.local_step, mininterval=interval, miniters=1
        )
        self._began_at = time.perf_counter()
        self._due_at = self._began_at + self._interval
        self._latest: Sequence[np.ndarray] = ()
        self._values: dict[str, str] = {}
        self._tell()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> list[tf.Tensor] | None:
        # It is asked at each step, so it looks no further than it must.
        loop = self._loop
        is_last = loop.local_step + loop.num_coming == loop.steps_per_epoch
        if not (is_last or self._in_each_step or time.perf_counter() >= self._due_at):
            return None
        # What is known of a step is computed by the train op, and would be computed anew for other runs.
        is_step = not self._shows_statistics or ctx.original_args.fetches is self.trainer.train_op
        return self._fetches if is_step else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._latest = values.results
            self._got_values = not self._in_each_step or time.perf_counter() >= self._due_at

    def _trigger_step(self) -> None:
        # A bar with values waits one step for them, so that what is drawn belongs together.
        is_due = self._got_values or time.perf_counter() >= self._due_at
        if is_due and (self._got_values or self._fetches is None or self._has_waited):
            self._got_values = self._has_waited = False
            self._draw()
            self._due_at = time.perf_counter() + self._interval
        elif is_due:
            self._has_waited = True

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(last=tuple(self._fetches or ()))

    def _draw(self) -> None:
        self._values = {name: _brief(value) for name, value in zip(self._labels, self._latest, strict=False)}
        text = ", ".join(f"{name}={value}" for name, value in self._values.items())
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(self.local_step - self._bar.n)
        self._tell()

    def _tell(self) -> None:
        """Tell a launcher how far this process is, if one wants to know."""
        if self._line is None:
            return
        secs = time.perf_counter() - self._began_at
        done = self.local_step - self._bar.initial
        progress = {
            "epoch": self.epoch_num,
            "epochs": self.trainer.max_epoch,
            "step": self.local_step,
            "steps": self.trainer.steps_per_epoch,
            "secs": secs,
            "speed": done / secs if secs else 0.0,
            "values": self._values,
        }
        self._line.tell(progress)

    def _after_epoch(self) -> None:
        self._draw()
        self._close()

    def _after_train(self) -> None:
        # An epoch that ended with an error leaves its bar open.
        self._close()

    def _close(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; nothing is fetched where there is nothing to show."""
        if hook in ("before_run", "after_run"):
            return bool(self._names or self._fetches)
        return super().implements(hook)


@check_arguments
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
        if samples_per_step is not None:
            check_number(self, "samples_per_step", samples_per_step, 0, is_low_allowed=False)
        self._samples_per_step = samples_per_step
        self._timer = StepTimer()
        self._steps_per_sec: float | None = None

    def _before_epoch(self) -> None:
        self._timer.done(self.local_step)

    def _after_epoch(self) -> None:
        self._steps_per_sec = self._timer.rate(self.local_step)

    def _trigger_epoch(self) -> None:
        if self._steps_per_sec is None:
            return
        if self._samples_per_step is None:
            self.trainer.monitors.put_scalar("Throughput (steps/sec)", self._steps_per_sec)
        else:
            samples_per_sec = self._steps_per_sec * self._samples_per_step
            self.trainer.monitors.put_scalar("Throughput (samples/sec)", samples_per_sec)


@check_arguments
class EstimatedTimeLeft(Callback):
    """Log after each epoch how long the remaining ones will take, going by the last ones.

    Args:
        last_k_epochs: how many epochs to go by.
        median: take the median of their times, which one slow epoch does not disturb; else the mean.

    Raises:
        ConfigError: ``last_k_epochs`` is below 1.
    """

    def __init__(self, last_k_epochs: int = 5, median: bool = True) -> None:
        check_count(self, "last_k_epochs", last_k_epochs)
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


def _brief(value: np.ndarray) -> str:
    return f"{float(value):.3g}" if np.ndim(value) == 0 else str(value)
