"""The base of monitors for experiment trackers, which get statistics after each epoch, or when `SEND_SECS` have passed.

A failing client must not end a training: the first failure is a warning, and unsent rows are tried again after the next
epoch. But errors that only the user can fix, such as a missing key, are raised before the first step, and a missing
client when the monitor is made. A file of the log directory holds the client's id of the run and the last step sent: a
resumed run continues with that id and sends nothing twice, since services only append.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.env import change_env
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments

Result = TypeVar("Result")

SEND_SECS = 10.0
"""The interval of sending within an epoch."""

WAIT_SECS = 30.0
"""The timeout for a client in a thread, before the first step and after the last."""


# Automatic logging would patch other libraries.
_AUTOMATIC = {
    "auto_output_logging": False,
    "auto_param_logging": False,
    "auto_metric_logging": False,
    "log_graph": False,
    "parse_args": False,
    "display_summary_level": 0,
}

_MOST_IN_BATCH = {"metrics": 1000, "params": 100}

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}

_FORBIDDEN = re.compile(r"[^/\w.\- ]", re.ASCII)

_EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 143}


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
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
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


@check_arguments
class CometMonitor(Tracker):
    """Show a training in Comet: scalars, images, histograms, hyper-parameters.

    Its charts count global steps. A resumed run continues the same experiment. Without a network use ``online=False``:
    each run and resumption is then an archive in ``comet`` of the log directory, for ``comet upload``.

    The client is kept from patching TensorFlow, Keras and standard output. A program that needs that begins an
    experiment before it imports tpack; that experiment is continued and left open.

    Args:
        project: the project; by default ``COMET_PROJECT_NAME``, or the client's choice.
        name: the experiment's name; by default the client's choice.
        hparams: the hyper-parameters, such as ``{"learning_rate": 0.1}``.
        workspace: the project's owner; by default ``COMET_WORKSPACE``, or the client's choice.
        online: send statistics during the run; the key is in ``COMET_API_KEY`` or the client's settings.
        tags: of the experiment.

    Raises:
        DependencyError: The client is not installed: ``pip install 'tpack[comet]'``.

    Example:
        TrainConfig(..., monitors=[*DEFAULT_MONITORS(), CometMonitor("digits", hparams={"learning_rate": 0.1})])
    """

    MODULE = "comet_ml"
    EXTRA = "comet"

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        *,
        hparams: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        online: bool = True,
        tags: Sequence[str] = (),
    ) -> None:
        # Read when the client is imported, which patches libraries then.
        with change_env("COMET_DISABLE_AUTO_LOGGING", "1"):
            super().__init__(hparams)
        self._project = project
        self._name = name
        self._workspace = workspace
        self._online = online
        self._tags = list(tags)
        self._experiment: Any = None
        self._is_ours = True

    def _to_be_mended(self) -> tuple[type[Exception], ...]:
        errors = self._client.exceptions
        # A missing key is a ValueError.
        return ValueError, errors.InvalidAPIKey, errors.InvalidWorkspace, errors.AuthenticationError

    def _begin(self, former: str | None) -> str:
        self._experiment = self._client.get_running_experiment()
        # The client also returns an experiment that has ended.
        self._is_ours = self._experiment is None or self._experiment.ended
        if self._is_ours:
            self._experiment = self._client.start(
                workspace=self._workspace,
                project_name=self._project,
                experiment_key=former,
                mode="create" if former is None else "get_or_create",
                online=self._online,
                experiment_config=self._client.ExperimentConfig(
                    name=self._name,
                    tags=self._tags,
                    offline_directory=None if self._directory is None else os.path.join(self._directory, "comet"),
                    **_AUTOMATIC,
                ),
            )
        if not self._experiment.alive:
            raise ConnectionError("the client keeps nothing: it is disabled, or has no connection; see its own log")
        if former is None:
            self._experiment.log_parameters(self._hparams)
        return str(self._experiment.get_key())

    def _send(self, row: Row) -> None:
        self._experiment.log_metrics(row.scalars, step=row.step, epoch=row.epoch)
        for name, png in row.images.items():
            self._experiment.log_image(io.BytesIO(png), name=name, step=row.step)
        for name, given in row.histograms.items():
            histogram = self._client.data_structure.Histogram()
            histogram.add((given.edges[:-1] + given.edges[1:]) / 2, counts=given.counts)
            self._experiment.log_histogram_3d(histogram, name=name, step=row.step, epoch=row.epoch)

    def _end(self, status: str) -> None:
        self._experiment.log_other("training", status)
        if self._is_ours:
            self._experiment.end()


@check_arguments
class MLflowMonitor(Tracker):
    """Show a training in MLflow: scalars, images, hyper-parameters. MLflow has no histograms.

    A resumed run continues the same MLflow run. Characters other than letters, digits and ``_-. /`` in names become
    ``_``. A thread talks to the server: training does not wait for it, except for at most half a minute at each action
    before and after it.

    Args:
        tracking_uri: the server, or a local store such as ``"sqlite:///mlflow.db"``; by default ``MLFLOW_TRACKING_URI``
            or the client's choice.
        experiment: the experiment, made if missing; by default ``MLFLOW_EXPERIMENT_NAME``, or ``Default``.
        name: the run's name; by default the client's choice.
        hparams: the hyper-parameters, such as ``{"learning_rate": 0.1}``.
        tags: of the run.

    Raises:
        DependencyError: The client is not installed: ``pip install 'tpack[mlflow]'``.

    Example:
        TrainConfig(..., monitors=[*DEFAULT_MONITORS(), MLflowMonitor("http://localhost:5000", "digits")])
    """

    MODULE = "mlflow"
    EXTRA = "mlflow"
    IN_THREAD = True

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        name: str | None = None,
        *,
        hparams: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(hparams)
        self._tracking_uri = tracking_uri
        self._experiment = experiment
        self._name = name
        self._tags = dict(tags or {})
        self._store: Any = None
        self._run_id = ""

    def _begin(self, former: str | None) -> str:
        self._store = self._client.MlflowClient(self._tracking_uri)
        if former is not None:
            self._store.update_run(former, status="RUNNING")
            self._run_id = former
            return former
        name = self._experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
        found = self._store.get_experiment_by_name(name)
        experiment_id = str(self._store.create_experiment(name) if found is None else found.experiment_id)
        run = self._store.create_run(experiment_id, run_name=self._name, tags=self._tags)
        self._run_id = str(run.info.run_id)
        entities = import_optional("mlflow.entities", self.EXTRA)
        self._log("params", [entities.Param(_as_name(name), str(value)) for name, value in self._hparams.items()])
        return self._run_id

    def _send(self, row: Row) -> None:
        entities, millis = import_optional("mlflow.entities", self.EXTRA), int(row.time * 1000)
        values = {"epoch": row.epoch, **row.scalars}
        metrics = [entities.Metric(_as_name(name), value, millis, row.step) for name, value in values.items()]
        self._log("metrics", metrics)
        for name, png in row.images.items():
            image = import_optional("PIL.Image", self.EXTRA).open(io.BytesIO(png))
            options = {"key": _as_name(name), "step": row.step, "timestamp": millis}
            self._store.log_image(self._run_id, image, **options, synchronous=True)

    def _log(self, kind: str, values: list[Any]) -> None:
        most = _MOST_IN_BATCH[kind]
        for start in range(0, len(values), most):
            self._store.log_batch(self._run_id, **{kind: values[start : start + most]}, synchronous=True)

    def _end(self, status: str) -> None:
        self._store.set_terminated(self._run_id, _STATUS[status])


def _as_name(name: str) -> str:
    """Return a statistic's name in MLflow, where names are paths below a directory."""
    allowed = posixpath.normpath(_FORBIDDEN.sub("_", name)).lstrip("/")
    return re.sub(r"^\.+(?=/|$)", "_", allowed)


@check_arguments
class WandbMonitor(Tracker):
    """Show a training in Weights & Biases: scalars, images, histograms, hyper-parameters.

    Its charts count global steps; its files are in ``wandb`` of the log directory. A resumed run continues the same
    run. Without a network use ``mode="offline"`` or ``WANDB_MODE=offline``, and ``wandb sync`` later; each resumption
    is then a directory of the same run. A run that the program has begun itself, as in a sweep, is continued and left
    open.

    Args:
        project: the project; by default the client's choice.
        name: the run's name; by default the client's choice.
        hparams: the hyper-parameters, such as ``{"learning_rate": 0.1}``.
        **init: further arguments of ``wandb.init``, such as ``entity``, ``group``, ``tags`` or ``mode``.

    Raises:
        DependencyError: The client is not installed: ``pip install 'tpack[wandb]'``.

    Example:
        TrainConfig(..., monitors=[*DEFAULT_MONITORS(), WandbMonitor("digits", hparams={"learning_rate": 0.1})])
    """

    MODULE = "wandb"
    EXTRA = "wandb"

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        *,
        hparams: Mapping[str, Any] | None = None,
        **init: Any,
    ) -> None:
        super().__init__(hparams)
        self._options = {"project": project, "name": name, **init}
        self._wandb_run: Any = None
        self._is_ours = True

    def _to_be_mended(self) -> tuple[type[Exception], ...]:
        errors = self._client.errors
        return errors.UsageError, errors.AuthenticationError, TypeError

    def _begin(self, former: str | None) -> str:
        self._wandb_run = self._client.run
        self._is_ours = self._wandb_run is None
        if self._is_ours:
            again = {} if former is None else {"id": former, "resume": "allow"}
            self._wandb_run = self._client.init(**{"dir": self._directory, **self._options, **again})
        self._wandb_run.config.update(self._hparams, allow_val_change=True)
        return str(self._wandb_run.id)

    def _send(self, row: Row) -> None:
        values: dict[str, Any] = {"epoch": row.epoch, **row.scalars}
        for name, png in row.images.items():
            # The client takes images of Pillow, which is in the extra.
            values[name] = self._client.Image(import_optional("PIL.Image", self.EXTRA).open(io.BytesIO(png)))
        for name, histogram in row.histograms.items():
            values[name] = self._client.Histogram(np_histogram=self._with_fewer_bins(histogram))
        self._wandb_run.log(values, step=row.step)

    def _with_fewer_bins(self, histogram: Histogram) -> tuple[np.ndarray, np.ndarray]:
        """Return counts and edges, with neighbours joined until the client takes their number."""
        counts, edges = histogram.counts, histogram.edges
        while len(counts) > self._client.Histogram.MAX_LENGTH:
            starts = np.arange(0, len(counts), 2)
            counts, edges = np.add.reduceat(counts, starts), np.append(edges[starts], edges[-1])
        return counts, edges

    def _end(self, status: str) -> None:
        if self._is_ours:
            self._wandb_run.finish(exit_code=_EXIT_CODES[status])
