"""Progress of training: a progress bar, the throughput, and the time left."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.errors import ConfigError
from tpack.step.step_timer import StepTimer
from tpack.tower.names import op_and_tensor_name
from tpack.types import Counters
from tpack.utils import logger
from tpack.utils.progress import JOB_REFRESH_SECS, get_tqdm, get_tqdm_kwargs, launcher_line
from tpack.utils.timer import humanize_time_delta
from tpack.utils.validation import check_arguments, check_count, check_number, owner_name


@check_arguments
class ProgressBar(Callback):
    """Show the progress and the speed of an epoch.

    A step pays one look at the clock: the bar is drawn, and its tensors are fetched, once per refresh interval, or in
    each step where XLA compiles steps. Under a launcher with one bar for all processes, such as ``tpack launch`` on a
    terminal, the bar goes into the process's file, and its progress to the launcher.

    Args:
        names: names of scalar tensors whose values in the last step are shown. None shows the trainer's statistics: the
            mean cost of the towers, and the metrics of a `KerasModel`.
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
        interval = get_tqdm_kwargs()["mininterval"]
        self._interval = interval if self._line is None else JOB_REFRESH_SECS
        # The bar is updated only when it is drawn, unless a launcher gets more frequent updates.
        options = {"mininterval": 0 if self._line is None else interval, "miniters": 1}
        self._bar = get_tqdm(total=self.trainer.steps_per_epoch, initial=self.local_step, **options)
        self._began_at = time.perf_counter()
        self._due_at = self._began_at + self._interval
        self._latest: Sequence[np.ndarray] = ()
        self._values: dict[str, str] = {}
        self._send_progress()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> list[tf.Tensor] | None:
        # On the hot path of each step.
        loop = self._loop
        is_last = loop.local_step + loop.num_coming == loop.steps_per_epoch
        if not (is_last or self._in_each_step or time.perf_counter() >= self._due_at):
            return None
        # Statistics are computed by the train op; other runs would compute them again.
        is_step = not self._shows_statistics or ctx.original_args.fetches is self.trainer.train_op
        return self._fetches if is_step else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._latest = values.results
            self._got_values = not self._in_each_step or time.perf_counter() >= self._due_at

    def _trigger_step(self) -> None:
        # A bar with values waits one step for them, so that step and values match.
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
        latest = zip(self._labels, self._latest, strict=False)
        self._values = {name: f"{float(v):.3g}" if np.ndim(v) == 0 else str(v) for name, v in latest}
        text = ", ".join(f"{name}={value}" for name, value in self._values.items())
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(self.local_step - self._bar.n)
        self._send_progress()

    def _send_progress(self) -> None:
        if self._line is None:
            return
        secs = time.perf_counter() - self._began_at
        done = self.local_step - self._bar.initial
        progress = {"epoch": self.epoch_num, "epochs": self.trainer.max_epoch}
        progress |= {"step": self.local_step, "steps": self.trainer.steps_per_epoch}
        self._line.tell({**progress, "secs": secs, "speed": done / secs if secs else 0.0, "values": self._values})

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
        """Tell whether ``hook`` does anything; without values nothing is fetched."""
        return bool(self._names or self._fetches) if hook in ("before_run", "after_run") else super().implements(hook)


@check_arguments
class ThroughputTracker(Callback):
    """Report each epoch's steps or samples per second, without the time between epochs.

    The name is ``Throughput (steps/sec)`` or ``Throughput (samples/sec)``.

    Args:
        samples_per_step: the number of samples in a step of all towers; None counts steps.
        unit: the name of what is counted, such as ``"images"`` or ``"tokens"``.

    Raises:
        ConfigError: ``samples_per_step`` is not positive, or ``unit`` is given without it.
    """

    _chief_only = False

    def __init__(self, samples_per_step: float | None = None, *, unit: str | None = None) -> None:
        if samples_per_step is None and unit is not None:
            raise ConfigError(f"{owner_name(self)} got unit={unit!r} without samples_per_step: expected their number")
        self._unit = "steps" if samples_per_step is None else unit or "samples"
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
        if self._steps_per_sec is not None:
            rate = self._steps_per_sec * (self._samples_per_step or 1)
            self.trainer.monitors.put_scalar(f"Throughput ({self._unit}/sec)", rate)


@check_arguments
class EstimatedTimeLeft(Callback):
    """Log after each epoch the time for the remaining ones, estimated from the last ones.

    Args:
        last_k_epochs: the number of epochs to use.
        median: use the median of their times, which ignores one slow epoch; otherwise the mean.

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
