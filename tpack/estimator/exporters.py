"""Exporters of the last model, and of each model."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

from tpack.errors import ConfigError
from tpack.estimator.exporter import Exporter

Results = Mapping[str, Any]


class LatestExporter(Exporter):
    """Exports after each evaluation, and keeps the newest models.

    Args:
        name: of the directory.
        serving_input_receiver_fn: as for `Estimator.export_saved_model`.
        assets_extra: as for `Estimator.export_saved_model`.
        as_text: as for `Estimator.export_saved_model`.
        exports_to_keep: how many models are kept; None keeps all.

    Raises:
        ConfigError: There is no name, or no model would be kept.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        if not name or not isinstance(name, str):
            raise ConfigError(f"an exporter wants a name, got {name!r}")
        if exports_to_keep is not None and exports_to_keep < 1:
            raise ConfigError(f"exports_to_keep must be positive, got {exports_to_keep!r}")
        self._name = name
        self._receive = serving_input_receiver_fn
        self._options = {"assets_extra": assets_extra, "as_text": as_text}
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self._name

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Results, is_the_final_export: bool
    ) -> str | None:
        """Export the model, and delete those that are too many."""
        path: str = estimator.export_saved_model(
            export_path, self._receive, checkpoint_path=checkpoint_path, **self._options
        )
        exports = sorted((int(name), name) for name in os.listdir(export_path) if name.isdigit())
        if self._exports_to_keep is not None:
            for _, name in exports[: -self._exports_to_keep]:
                shutil.rmtree(os.path.join(export_path, name))
        return path


class FinalExporter(LatestExporter):
    """Exports once, after the last evaluation.

    Args:
        name: of the directory.
        serving_input_receiver_fn: as for `Estimator.export_saved_model`.
        assets_extra: as for `Estimator.export_saved_model`.
        as_text: as for `Estimator.export_saved_model`.

    Raises:
        ConfigError: There is no name.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Results, is_the_final_export: bool
    ) -> str | None:
        """Export the model if it is the last one."""
        if not is_the_final_export:
            return None
        return super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
