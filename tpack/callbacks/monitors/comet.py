"""Statistics in Comet, by its own client."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tpack.callbacks.monitors.experiment_tracker import Row, Tracker
from tpack.utils.env import change_env
from tpack.utils.validation import check_arguments

# Automatic logging would patch other libraries.
_AUTOMATIC = {
    "auto_output_logging": False,
    "auto_param_logging": False,
    "auto_metric_logging": False,
    "log_graph": False,
    "parse_args": False,
    "display_summary_level": 0,
}


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
