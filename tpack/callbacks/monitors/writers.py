"""Monitors that hand statistics on as they come: to TensorBoard's event files, to the log, or to a shell command."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.send_stat import CommandTemplate, run_command
from tpack.compat import serialized_graph
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_number

_MOST_WITH_SHAPES = 10_000
"""How many operations a graph has at most for the shapes of all to be written with it."""


@check_arguments
class TFEventWriter(MonitorBase):
    """Write summaries, events and the graph to TensorFlow event files.

    A run that resumes tells TensorBoard to forget what a former run wrote after the step at which it resumes. The
    shapes of tensors are written with graphs of up to 10,000 operations; to find out more would take seconds.

    Args:
        logdir: the directory, wherever TensorFlow can write, such as ``gs://``; the logger's directory unless given.
            Without either nothing is written.
        max_queue: how many events wait in memory before the writer is waited for.
        flush_secs: how often the file is flushed; it also is after each epoch.
        split_files: begin a new file after each epoch, for storage that can not append.
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
                "TFEventWriter writes nothing: neither its logdir nor the logger's directory is set, as log_dir of "
                "TrainConfig or fit does"
            )

    def _before_train(self) -> None:
        self._has_begun = True
        if self._logdir is None:
            return
        self._writer = self._open_file()
        self._write_graph(self._writer)
        if self.global_step > 0:
            start = tf.SessionLog(status=tf.SessionLog.START)
            self._writer.add_session_log(start, self.global_step + 1)
        for summary in self._early:
            self.process_summary(summary)
        self._early.clear()

    def _write_graph(self, writer: tf.summary.FileWriter) -> None:
        if len(self.graph.get_operations()) <= _MOST_WITH_SHAPES:
            writer.add_graph(self.graph)
        else:
            writer.add_event(tf.Event(wall_time=time.time(), graph_def=serialized_graph(self.graph)))

    def _open_file(self) -> tf.summary.FileWriter:
        # A file's name has its time in seconds: of two in one second the later one would take the place of the other
        # (tensorflow/tensorflow#33595).
        suffix = f".{time.time_ns()}"
        # A session being the default one does not make its graph so, and outside a graph there is no FileWriter.
        with self.graph.as_default():
            try:
                return tf.summary.FileWriter(
                    self._logdir, max_queue=self._max_queue, flush_secs=self._flush_secs, filename_suffix=suffix
                )
            except tf.errors.OpError as error:
                raise CallbackError(f"{self} cannot write to {self._logdir}: {error.message}") from error

    def process_summary(self, summary: tf.Summary) -> None:
        """Write the summary at the current step."""
        if self._writer is not None:
            self._writer.add_summary(summary, self.global_step)
        elif not self._has_begun:
            # Monitors come last, so other callbacks' `before_train` reports when there is no file yet.
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
    """Log the scalars that came since the last time, sorted by name.

    Args:
        enable_step: log after each step that reported something.
        enable_epoch: log after each epoch.
        whitelist: regular expressions; only names that match one at their beginning are logged. All unless given.
        blacklist: regular expressions; names that match one at their beginning are not logged.

    Raises:
        WrongTypeError: an argument is no such thing.
        ConfigError: something is no regular expression.
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
            raise ConfigError(
                f"{self} got {argument} with {error.pattern!r}, no regular expression: {error}"
            ) from error

    def process_scalar(self, name: str, val: float) -> None:
        """Remember the value until it is logged."""
        is_wanted = any(pattern.match(name) for pattern in self._whitelist)
        if is_wanted and not any(pattern.match(name) for pattern in self._blacklist):
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
        if hook == "trigger_step":
            return self._logs_steps
        return super().implements(hook)


@check_arguments
class SendMonitorData(MonitorBase):
    """Run a shell command with the scalars that came in an epoch, after it.

    In an epoch in which one of them did not come, nothing is run. A command that fails is logged and disturbs nothing.

    Args:
        command: the command, with ``{name}`` where a value goes. ``{name:.3f}`` formats it; a brace is written twice.
        names: the statistics, one name or several.
        timeout_secs: how long training waits for the command.

    Raises:
        ConfigError: the command cannot be read, or uses a name that is not in ``names``.
    """

    def __init__(self, command: str, names: str | Sequence[str], *, timeout_secs: float = 60) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._template = CommandTemplate(command, self._names)
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, 0, is_low_allowed=False)
        self._values: dict[str, float] = {}
        self._has_warned = False

    def process_scalar(self, name: str, val: float) -> None:
        """Remember the value until the end of the epoch."""
        if name in self._names:
            self._values[name] = val

    def _trigger(self) -> None:
        values, self._values = self._values, {}
        missing = [name for name in self._names if name not in values]
        if not missing:
            run_command(self._template.fill(values), self._timeout_secs)
        elif not self._has_warned:
            logger.warning(f"{self} sends nothing in epoch {self.epoch_num}: {', '.join(missing)} did not come.")
            self._has_warned = True
