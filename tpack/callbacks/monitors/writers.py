"""Monitors that write statistics to TensorBoard's event files and to the log."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.compat.operations import serialized_graph
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, mismatch

_MOST_WITH_SHAPES = 10_000
"""Larger graphs are written without tensor shapes."""


@check_arguments
class TFEventWriter(MonitorBase):
    """Write summaries, events and the graph to TensorFlow event files.

    A resumed run makes TensorBoard discard later events of former runs. Graphs of up to 10,000 operations are written
    with tensor shapes, which would take seconds for larger ones.

    Args:
        logdir: a directory that TensorFlow can write, such as ``gs://``; the logger's unless given. Without either
            nothing is written.
        max_queue: the number of events in memory before a write blocks.
        flush_secs: the interval of flushes; each epoch ends with one, too.
        split_files: begin a new file after each epoch, for storage without appending.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        split_files: bool = False,
    ) -> None:
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._max_queue = check_count(self, "max_queue", max_queue)
        self._flush_secs = check_count(self, "flush_secs", flush_secs)
        self._split_files = split_files
        self._writer: tf.summary.FileWriter | None = None
        self._early: list[tf.Summary] = []
        self._has_begun = False

    def _setup_graph(self) -> None:
        self._logdir = self._logdir or logger.get_logger_dir()
        if self._logdir is None:
            logger.warning(
                "TFEventWriter writes nothing: neither its logdir nor the logger's directory is set; use "
                "logger.set_logger_dir(path), or log_dir of TrainConfig or fit"
            )

    def _before_train(self) -> None:
        self._has_begun = True
        if self._logdir is None:
            return
        self._writer = self._open_file()
        if len(self.graph.get_operations()) <= _MOST_WITH_SHAPES:
            self._writer.add_graph(self.graph)
        else:
            self._writer.add_event(tf.Event(wall_time=time.time(), graph_def=serialized_graph(self.graph)))
        if self.global_step > 0:
            start = tf.SessionLog(status=tf.SessionLog.START)
            self._writer.add_session_log(start, self.global_step + 1)
        for summary in self._early:
            self.process_summary(summary)
        self._early.clear()

    def _open_file(self) -> tf.summary.FileWriter:
        options = {"max_queue": self._max_queue, "flush_secs": self._flush_secs}
        # File names have the time in whole seconds, so a second file could replace the first
        # (tensorflow/tensorflow#33595). A FileWriter needs a default graph.
        with self.graph.as_default():
            try:
                return tf.summary.FileWriter(self._logdir, **options, filename_suffix=f".{time.time_ns()}")
            except tf.errors.OpError as error:
                raise CallbackError(f"{self} cannot write to {self._logdir}: {error.message}") from error

    def process_summary(self, summary: tf.Summary) -> None:
        """Write the summary at the present step."""
        if self._writer is not None:
            self._writer.add_summary(summary, self.global_step)
        elif not self._has_begun:
            # Reported by `before_train` of other callbacks, which come before monitors.
            self._early.append(summary)

    def process_event(self, evt: tf.Event) -> None:
        """Write the event."""
        if self._writer is not None:
            self._writer.add_event(evt)

    def _trigger(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            if self._split_files:
                self._writer.close()
                self._writer = self._open_file()

    def _after_train(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


@check_arguments
class ScalarPrinter(MonitorBase):
    """Log the scalars since the last time, sorted by name.

    Args:
        enable_step: log after each step with scalars.
        enable_epoch: log after each epoch.
        whitelist: regular expressions; only names whose beginning matches one are logged. All unless given.
        blacklist: regular expressions; names whose beginning matches one are not logged.

    Raises:
        WrongTypeError: an argument has the wrong type.
        ConfigError: a regular expression is invalid.
    """

    def __init__(
        self,
        enable_step: bool = False,
        enable_epoch: bool = True,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] | None = None,
    ) -> None:
        self._logs_steps = enable_step
        self._logs_epochs = enable_epoch
        self._whitelist = self._compiled("whitelist", [""] if whitelist is None else whitelist)
        self._blacklist = self._compiled("blacklist", blacklist or ())
        self._values: dict[str, float] = {}

    def _compiled(self, argument: str, patterns: Sequence[str]) -> list[re.Pattern[str]]:
        try:
            return [re.compile(pattern) for pattern in patterns]
        except re.error as error:
            expected = f"regular expressions ({error})"
            raise ConfigError(mismatch(self, argument, error.pattern, expected)) from error

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the value until it is logged."""
        matches = [any(pattern.match(name) for pattern in each) for each in (self._whitelist, self._blacklist)]
        if matches == [True, False]:
            self._values[name] = val

    def _trigger_step(self) -> None:
        self._log()

    def _trigger(self) -> None:
        if self._logs_epochs:
            self._log()

    def _log(self) -> None:
        for name, value in sorted(self._values.items()):
            logger.info(f"{name}: {value:.5g}")
        self._values.clear()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything."""
        return self._logs_steps if hook == "trigger_step" else super().implements(hook)
