"""The base of monitors for services that keep experiments: what they have in common, whatever the service's client.

Statistics are gathered by step, and given to the client after each epoch, or when the last time was `SEND_SECS` ago.
What a client does with them, and when, is its own affair.

A client that fails must not end a training of days. The first failure is a warning with its reason; what was not sent
is tried again after the next epoch. But what only the user can mend, such as a key that is missing, is an error before
the first step, and a client that is not installed one before anything is built.

The client's number of a run, and the last step that was sent, are in a file of the log directory. A run that resumes
goes on with the same number, and what a former one has sent is not sent again: services only append.
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
from tpack.utils.optional import import_optional

Result = TypeVar("Result")

SEND_SECS = 10.0
"""How long statistics are gathered within an epoch before they are sent."""

WAIT_SECS = 30.0
"""How long training waits, before its first step and after its last, for a client that is called in a thread."""


@dataclass(frozen=True)
class Histogram:
    """How often values lie between some edges.

    Attributes:
        counts: of shape [num_bins].
        edges: of shape [num_bins + 1], ascending.
    """

    counts: np.ndarray
    edges: np.ndarray


@dataclass(frozen=True)
class Row:
    """What was reported at one step.

    Attributes:
        step: the global step.
        epoch: the epoch.
        time: when the first of it came, in seconds since 1970.
        scalars: by name.
        images: the PNG files, by name.
        histograms: by name.
    """

    step: int
    epoch: int
    time: float
    scalars: dict[str, float] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)


@dataclass(frozen=True)
class Begun:
    """A run that the client has begun, as the file in the log directory tells of it.

    Attributes:
        run_id: by which the client finds it again.
        step: the last step that was sent; -1 for none.
    """

    run_id: str
    step: int = -1


class Tracker(MonitorBase, ABC):
    """Give statistics to the client of a service that keeps experiments; a subclass says how.

    Args:
        hparams: what the run was made with, such as ``{"learning_rate": 0.1}``; shown beside its results.
    """

    MODULE: str
    """What the client is imported as."""

    EXTRA: str
    """The extra of tpack that installs the client."""

    IN_THREAD = False
    """Whether the client waits for its service while it is called."""

    def __init__(self, hparams: Mapping[str, Any] | None) -> None:
        self._client: ModuleType = import_optional(self.MODULE, self.EXTRA)
        self._hparams = dict(hparams or {})
        self._directory: str | None = None
        self._run: Begun | None = None
        self._former_step = -1
        self._rows: list[Row] = []
        self._unsent: list[Row] = []
        self._sending: _Call | None = None
        self._has_failed = self._is_over = False
        self._sent_at = 0.0

    # What a subclass says.

    @abstractmethod
    def _begin(self, former: str | None) -> str:
        """Begin a run, or go on with a former one, and return its id.

        Args:
            former: the id of the run that is resumed; None for a new one, which gets the hyper-parameters.

        Raises:
            Exception: Whatever the client raises; one of `_to_be_mended` ends the program, others are a warning.
        """

    @abstractmethod
    def _send(self, row: Row) -> None:
        """Give one row to the client; rows come in the order of steps, and two may be of one step."""

    @abstractmethod
    def _end(self, status: str) -> None:
        """End the run.

        Args:
            status: ``"finished"``, ``"failed"`` or ``"interrupted"``.
        """

    def _to_be_mended(self) -> tuple[type[Exception], ...]:
        """Return the client's errors for what only the user can mend."""
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
        self._run = Begun(run_id)
        if former is not None:
            self._run, self._former_step = former, former.step
            self._rows = [row for row in self._rows if row.step > former.step]
        self._try("write down which run it is", self._note)

    def _former_run(self) -> Begun | None:
        """Return the run that an earlier training in the same directory has begun, if it can be told."""
        if self._directory is None:
            return None
        path = self._path(self._directory)
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            return Begun(str(content["run_id"]), int(content["step"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            logger.warning(f"{self} begins a new run, since {path} does not tell the former one: {_in_words(error)}")
            return None

    def _path(self, directory: str) -> str:
        return os.path.join(directory, f"{self.EXTRA}_run.json")

    def _note(self) -> None:
        """Write down which run it is, and how far it is."""
        if self._directory is not None and self._run is not None:
            with atomic_write(self._path(self._directory)) as file:
                json.dump(asdict(self._run), file)

    def _trigger(self) -> None:
        self._send_rows()

    def _after_train(self) -> None:
        if self._run is None or self._is_over:
            return
        for _ in range(2):
            # What is being sent now, and then what came since.
            self._send_rows()
            if self._sending is not None:
                self._sending.wait(WAIT_SECS)
        self._is_over = True
        status = "failed" if self.trainer.has_failed else "interrupted" if self.trainer.interrupted else "finished"
        self._try("end the run", lambda: self._within(lambda: self._end(status)))
        if unsent := {row.step for row in (*self._unsent, *self._rows)}:
            logger.warning(f"{self} could not send the statistics of {len(unsent)} steps.")

    # What is reported.

    def process_scalar(self, name: str, val: float) -> None:
        """Keep a number until it is sent."""
        row = self._row()
        if row is not None:
            row.scalars[name] = val

    def process_summary(self, summary: tf.Summary) -> None:
        """Keep images and histograms until they are sent; numbers come as what they are, and more precise."""
        for value in summary.value:
            kind = value.WhichOneof("value")
            row = self._row() if kind in ("image", "histo") else None
            if row is not None and kind == "image":
                row.images[value.tag] = value.image.encoded_image_string
            elif row is not None:
                row.histograms[value.tag] = _histogram_of(value.histo)

    def _row(self) -> Row | None:
        """Return the row of the current step; None where nothing is kept of it."""
        step = self.global_step
        if self._is_over or step <= self._former_step:
            return None
        if not self._rows or self._rows[-1].step != step:
            if self._run is not None and time.monotonic() - self._sent_at >= SEND_SECS:
                self._send_rows()
            self._rows.append(Row(step, self.epoch_num, time.time()))
        return self._rows[-1]

    # What is sent, which may be in a thread.

    def _within(self, call: Callable[[], Result]) -> Result:
        """Call the client and return what it does, or raise `TimeoutError` if that takes too long."""
        if not self.IN_THREAD:
            return call()
        called = _Call(call)
        called.wait(WAIT_SECS)
        return called.result()

    def _send_rows(self) -> None:
        """Send what was gathered, unless the client is still busy with the last."""
        self._sent_at = time.monotonic()
        if self._run is None or (self._sending is not None and self._sending.is_running()):
            return
        rows, self._unsent, self._rows = [*self._unsent, *self._rows], [], []
        if rows:
            send = partial(self._try, "send statistics", partial(self._send_all, rows))
            self._sending = _Call(send) if self.IN_THREAD else None
            if self._sending is None:
                send()

    def _send_all(self, rows: list[Row]) -> None:
        """Send rows one by one, and write down how far that is, whatever comes of the others."""
        num_sent = 0
        try:
            for row in rows:
                self._send(row)
                num_sent += 1
        finally:
            # Numbers can wait for long; pictures take too much memory for that.
            self._unsent = [replace(row, images={}, histograms={}) for row in rows[num_sent:]]
            if num_sent and self._run is not None:
                self._run = replace(self._run, step=rows[num_sent - 1].step)
                self._note()

    def _try(self, what: str, call: Callable[[], None]) -> bool:
        """Call the client; return whether it did what it should. Its first failure is told."""
        try:
            call()
        except Exception as error:
            if not self._has_failed:
                logger.warning(
                    f"{self} cannot {what}: {_in_words(error)}. Training goes on; it is tried again after each epoch."
                )
            self._has_failed = True
            return False
        return True


class _Call(Generic[Result]):
    """Something that is called in a thread, which ends with the process."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._results: list[Result] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except Exception as error:
            self._error = error

    def is_running(self) -> bool:
        """Tell whether it has not returned yet."""
        return self._thread.is_alive()

    def wait(self, secs: float) -> None:
        """Wait until it has returned, but not for longer than some time."""
        self._thread.join(secs)

    def result(self) -> Result:
        """Return what it returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        if not self._results:
            raise TimeoutError(f"the client did not answer within {WAIT_SECS:g} seconds")
        return self._results[0]


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _histogram_of(histo: Any) -> Histogram:
    """Return the histogram of a summary, whose outermost edges are as far as there are values."""
    counts = np.asarray(histo.bucket, np.float64)
    edges = np.asarray([histo.min, *histo.bucket_limit], np.float64)
    filled = np.flatnonzero(counts)
    if not filled.size:
        return Histogram(np.zeros(1), np.array([0.0, 1.0]))
    first, last = filled[0], filled[-1]
    counts, edges = counts[first : last + 1], edges[first : last + 2]
    edges[0], edges[-1] = max(edges[0], histo.min), min(edges[-1], histo.max)
    return Histogram(counts, edges)
