"""Statistics in MLflow, by its own client."""

from __future__ import annotations

import io
import os
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tpack.callbacks.monitors.experiment_tracker import Row, Tracker
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments

_MOST_IN_BATCH = {"metrics": 1000, "params": 100}
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_FORBIDDEN = re.compile(r"[^/\w.\- ]", re.ASCII)


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
