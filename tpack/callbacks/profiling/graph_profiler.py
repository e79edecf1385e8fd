"""Record the time of each operation of a step."""

from __future__ import annotations

import math
import os

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat.runtime import chrome_trace
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.fs import atomic_write
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class GraphProfiler(Callback):
    """Trace some steps and write a file for each to the logger's directory; see `Profile` for a report.

    A traced step takes several times as long, and its files are large, so only the first ten steps are traced; choose
    them with `PeriodicCallback` or `EnableCallbackIf`.

    Args:
        dump_metadata: write ``runmetadata-<step>.pb``, a serialized ``tf.RunMetadata``.
        dump_tracing: write ``chrome-trace-<step>.json``, for ``chrome://tracing`` and ui.perfetto.dev.
        dump_event: report the metadata as an event, for TensorBoard's graph and profile.
        num_steps: the number of steps to trace; None means all.

    Raises:
        ConfigError: there is nothing to write, or ``num_steps`` is not positive.

    Example:
        ``EnableCallbackIf(GraphProfiler(), lambda self: self.global_step in range(100, 103))``
    """

    def __init__(
        self,
        dump_metadata: bool = False,
        dump_tracing: bool = True,
        dump_event: bool = False,
        *,
        num_steps: int | None = 10,
    ) -> None:
        if not (dump_metadata or dump_tracing or dump_event):
            raise ConfigError("GraphProfiler got no output: expected dump_metadata, dump_tracing or dump_event")
        self._dumps_metadata = dump_metadata
        self._dumps_tracing = dump_tracing
        self._dumps_event = dump_event
        self._num_left = math.inf if num_steps is None else check_count(self, "num_steps", num_steps)
        self._request = tf.train.SessionRunArgs(fetches=[], options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
        self._metadata: tf.RunMetadata | None = None
        self._dir = ""

    def _setup_graph(self) -> None:
        directory = logger.get_logger_dir()
        if directory is None and (self._dumps_metadata or self._dumps_tracing):
            raise CallbackError(f"{self} got no logger directory: expected one; use logger.set_logger_dir")
        self._dir = directory or ""

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._request if self._num_left > 0 else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self._metadata = values.run_metadata

    def _trigger_step(self) -> None:
        # After counting, so that the files carry the number of the traced step.
        metadata, self._metadata = self._metadata, None
        if metadata is None or self._num_left <= 0:
            return
        self._num_left -= 1
        if not self._num_left:
            logger.info(f"{self} traces no more steps than these: num_steps says how many.")
        content = metadata.SerializeToString()
        if self._dumps_metadata:
            with atomic_write(os.path.join(self._dir, f"runmetadata-{self.global_step:08d}.pb"), "wb") as file:
                file.write(content)
        if self._dumps_tracing:
            with atomic_write(os.path.join(self._dir, f"chrome-trace-{self.global_step}.json")) as file:
                file.write(chrome_trace(metadata))
        if self._dumps_event:
            tagged = {"tag": f"step{self.global_step}", "run_metadata": content}
            self.trainer.monitors.put_event(tf.Event(tagged_run_metadata=tagged))
