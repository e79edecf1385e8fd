"""TensorBoard's event files."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.utils import logger


class TFEventWriter(MonitorBase):
    """Write summaries, events and the graph to TensorFlow event files.

    A run that resumes tells TensorBoard to forget what a former run wrote after the step at which it resumes.

    Args:
        logdir: the directory; the logger's directory unless given. Without either nothing is written.
        max_queue: how many events wait in memory before the writer is waited for.
        flush_secs: how often the file is flushed; it also is after each epoch.
        split_files: begin a new file after each epoch, for storage that can not append.
    """

    def __init__(
        self, logdir: str | None = None, max_queue: int = 10, flush_secs: int = 120, split_files: bool = False
    ) -> None:
        self._logdir = logdir
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._split_files = split_files
        self._num_files = 0
        self._writer: Any = None
        self._early: list[Any] = []
        self._has_begun = False

    def _setup_graph(self) -> None:
        self._logdir = self._logdir or logger.get_logger_dir()
        if self._logdir is None:
            logger.warning("TFEventWriter writes nothing: neither its logdir nor the logger's directory is set")

    def _before_train(self) -> None:
        self._has_begun = True
        if self._logdir is None:
            return
        self._open_file()
        self._writer.add_graph(self.graph)
        if self.global_step > 0:
            start = tf.SessionLog(status=tf.SessionLog.START)
            self._writer.add_session_log(start, self.global_step + 1)
        for summary in self._early:
            self.process_summary(summary)
        self._early.clear()

    def _open_file(self) -> None:
        # A file's name has its time in seconds: without the number two files of one second would be one.
        suffix = f".{self._num_files}" if self._split_files else None
        self._num_files += 1
        # A session being the default one does not make its graph so, and outside a graph there is no FileWriter.
        with self.graph.as_default():
            self._writer = tf.summary.FileWriter(
                self._logdir, max_queue=self._max_queue, flush_secs=self._flush_secs, filename_suffix=suffix
            )

    def process_summary(self, summary: Any) -> None:
        """Write the summary at the current step."""
        if self._writer is not None:
            self._writer.add_summary(summary, self.global_step)
        elif not self._has_begun:
            # Monitors come last, so other callbacks' `before_train` reports when there is no file yet.
            self._early.append(summary)

    def process_event(self, evt: Any) -> None:
        """Write the event."""
        if self._writer is not None:
            self._writer.add_event(evt)

    def _trigger(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            if self._split_files:
                self._writer.close()
                self._open_file()

    def _after_train(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
