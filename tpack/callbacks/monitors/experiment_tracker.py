"""The base of monitors for experiment trackers, which get statistics after each epoch, or when `SEND_SECS` have passed.

A failing client must not end a training: the first failure is a warning, and unsent rows are tried again after the next
epoch. But errors that only the user can fix, such as a missing key, are raised before the first step, and a missing
client when the monitor is made. A file of the log directory holds the client's id of the run and the last step sent: a
resumed run continues with that id and sends nothing twice, since services only append.
"""

from __future__ import annotations

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import import_optional

Result = TypeVar("Result")

SEND_SECS = 10.0
"""The interval of sending within an epoch."""

WAIT_SECS = 30.0
"""The timeout for a client in a thread, before the first step and after the last."""


@dataclass(frozen=True)
class Histogram:
    """Counts of values between edges."""

    counts: np.ndarray  # of shape [num_bins]
    edges: np.ndarray  # of shape [num_bins + 1], ascending


@dataclass(frozen=True)
class Row:
    """The statistics of one step."""

    step: int
    epoch: int
    time: float  # of the first of them, in seconds since 1970
    scalars: dict[str, float] = field(default_factory=dict)  # by name
    images: dict[str, bytes] = field(default_factory=dict)  # PNG files, by name
    histograms: dict[str, Histogram] = field(default_factory=dict)  # by name


@dataclass(frozen=True)
class StoredRun:
    """A run as stored in the log directory."""

    run_id: str  # the client's id
    step: int = -1  # the last step that was sent; -1 for none


class Tracker(MonitorBase, ABC):
    """Send statistics to the client of an experiment tracker; subclasses wrap a client.

    Args:
        hparams: hyper-parameters, such as ``{"learning_rate": 0.1}``, shown beside the results.
    """

    MODULE: str
    """The client's module."""

    EXTRA: str
    """The extra of tpack that installs the client."""

    IN_THREAD = False
    """Whether calls of the client block on its service."""

    def __init__(self, hparams: Mapping[str, Any] | None) -> None:
        self._client: ModuleType = import_optional(self.MODULE, self.EXTRA)
        self._hparams = dict(hparams or {})
        self._directory: str | None = None
        self._run: StoredRun | None = None
        self._former_step = -1
        self._rows: list[Row] = []
        self._unsent: list[Row] = []
        self._sending: _Call | None = None
        self._has_failed = self._is_over = False
        self._sent_at = 0.0

    # Overridden by subclasses.

    @abstractmethod
    def _begin(self, former: str | None) -> str:
        """Begin or resume a run, and return its id.

        Args:
            former: the id of the run to resume; None for a new one, which gets the hyper-parameters.

        Raises:
            Exception: Any error of the client; one of `_to_be_mended` ends the program, others are a warning.
        """

    @abstractmethod
    def _send(self, row: Row) -> None:
        """Send one row; rows come in the order of steps, possibly two of one step."""

    @abstractmethod
    def _end(self, status: str) -> None:
        """End the run.

        Args:
            status: ``"finished"``, ``"failed"`` or ``"interrupted"``.
        """

    def _to_be_mended(self) -> tuple[type[Exception], ...]:
        """Return the client's errors that only the user can fix."""
        return ()

    # The life of a run.

    def _setup_graph(self) -> None:
        self._directory = logger.get_logger_dir()
        if self._directory is None:
            logger.warning(f"{self} begins a new run each time: without a log directory it cannot go on with one")

    def _before_train(self) -> None:
        self._sent_at = time.monotonic()
        former = self._former_run() if self.global_step > 0 else None
        try:
            run_id = self._within(lambda: self._begin(None if former is None else former.run_id))
        except self._to_be_mended() as error:
            raise CallbackError(f"{self} cannot begin a run: {error}") from error
        except Exception as error:
            self._is_over = True
            self._rows.clear()
            logger.warning(f"{self} keeps nothing of this training: a run cannot be begun: {_in_words(error)}")
            return
        self._run = StoredRun(run_id)
        if former is not None:
            self._run, self._former_step = former, former.step
            self._rows = [row for row in self._rows if row.step > former.step]
        self._try("write down which run it is", self._note)

    def _former_run(self) -> StoredRun | None:
        """Return the run of an earlier training in the directory, if any."""
        if self._directory is None:
            return None
        path = self._path(self._directory)
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            return StoredRun(str(content["run_id"]), int(content["step"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            logger.warning(f"{self} begins a new run, since {path} does not tell the former one: {_in_words(error)}")
            return None

    def _path(self, directory: str) -> str:
        return os.path.join(directory, f"{self.EXTRA}_run.json")

    def _note(self) -> None:
        if self._directory is not None and self._run is not None:
            with atomic_write(self._path(self._directory)) as file:
                json.dump(asdict(self._run), file)

    def _trigger(self) -> None:
        self._send_rows()

    def _after_train(self) -> None:
        if self._run is None or self._is_over:
            return
        # Twice: the rows in the thread, and later ones.
        for _ in range(2):
            self._send_rows()
            if self._sending is not None:
                self._sending.join(WAIT_SECS)
        self._is_over = True
        status = "failed" if self.trainer.has_failed else "interrupted" if self.trainer.interrupted else "finished"
        self._try("end the run", lambda: self._within(lambda: self._end(status)))
        if unsent := {row.step for row in (*self._unsent, *self._rows)}:
            logger.warning(f"{self} could not send the statistics of {len(unsent)} steps.")

    # Statistics.

    def process_scalar(self, name: str, val: float) -> None:
        """Keep a number until it is sent."""
        row = self._row()
        if row is not None:
            row.scalars[name] = val

    def process_summary(self, summary: tf.Summary) -> None:
        """Keep images and histograms until they are sent; numbers come by value, with more digits."""
        for value in summary.value:
            kind = value.WhichOneof("value")
            row = self._row() if kind in ("image", "histo") else None
            if row is not None and kind == "image":
                row.images[value.tag] = value.image.encoded_image_string
            elif row is not None:
                row.histograms[value.tag] = _histogram_of(value.histo)

    def _row(self) -> Row | None:
        """Return the row of the present step; None if it is not kept."""
        step = self.global_step
        if self._is_over or step <= self._former_step:
            return None
        if not self._rows or self._rows[-1].step != step:
            if self._run is not None and time.monotonic() - self._sent_at >= SEND_SECS:
                self._send_rows()
            self._rows.append(Row(step, self.epoch_num, time.time()))
        return self._rows[-1]

    # Calls of the client, possibly in a thread.

    def _within(self, call: Callable[[], Result]) -> Result:
        """Call the client; raise `TimeoutError` if that takes too long."""
        if not self.IN_THREAD:
            return call()
        called = _Call(call)
        called.join(WAIT_SECS)
        return called.result()

    def _send_rows(self) -> None:
        self._sent_at = time.monotonic()
        if self._run is None or (self._sending is not None and self._sending.is_alive()):
            return
        rows, self._unsent, self._rows = [*self._unsent, *self._rows], [], []
        if rows:
            send = partial(self._try, "send statistics", partial(self._send_all, rows))
            self._sending = _Call(send) if self.IN_THREAD else None
            if self._sending is None:
                send()

    def _send_all(self, rows: list[Row]) -> None:
        """Send rows one by one, and store the progress whatever happens."""
        num_sent = 0
        try:
            for row in rows:
                self._send(row)
                num_sent += 1
        finally:
            # Images and histograms would take too much memory.
            self._unsent = [replace(row, images={}, histograms={}) for row in rows[num_sent:]]
            if num_sent and self._run is not None:
                self._run = replace(self._run, step=rows[num_sent - 1].step)
                self._note()

    def _try(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            if not self._has_failed:
                logger.warning(
                    f"{self} cannot {what}: {_in_words(error)}. Training goes on; it is tried again after each epoch."
                )
            self._has_failed = True


class _Call(threading.Thread, Generic[Result]):
    """A call in a daemon thread."""

    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__(name="tracker", daemon=True)
        self._call = call
        self._results: list[Result] = []
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._results.append(self._call())
        except Exception as error:
            self._error = error

    def result(self) -> Result:
        if self._error is not None:
            raise self._error
        if not self._results:
            raise TimeoutError(f"the client did not answer within {WAIT_SECS:g} seconds")
        return self._results[0]


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _histogram_of(histo: Any) -> Histogram:
    """Return a summary's histogram without empty bins at its ends."""
    counts = np.asarray(histo.bucket, np.float64)
    edges = np.asarray([histo.min, *histo.bucket_limit], np.float64)
    filled = np.flatnonzero(counts)
    if not filled.size:
        return Histogram(np.zeros(1), np.array([0.0, 1.0]))
    first, last = filled[0], filled[-1]
    counts, edges = counts[first : last + 1], edges[first : last + 2]
    edges[0], edges[-1] = max(edges[0], histo.min), min(edges[-1], histo.max)
    return Histogram(counts, edges)
