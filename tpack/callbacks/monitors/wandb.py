"""Statistics in Weights & Biases, by its own client."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from tpack.callbacks.monitors.experiment_tracker import Histogram, Row, Tracker
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments

_EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 143}


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
