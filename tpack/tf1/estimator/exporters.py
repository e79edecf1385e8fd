"""Exporters of TensorFlow 1.15: of the best model, counting results of earlier runs, and of some steps."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.estimator import exporters
from tpack.utils import logger
from tpack.utils.validation import check_count, shown


class BestExporter(exporters.BestExporter):
    """Exports when an evaluation is better than all before, earlier runs included.

    Other arguments are those of `tpack.estimator.BestExporter`.

    Args:
        event_file_pattern: of paths of results; None for those of this exporter alone.

    Raises:
        ConfigError: As for `tpack.estimator.BestExporter`.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = exporters.loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(
            name, serving_input_receiver_fn, event_file_pattern, compare_fn, assets_extra, as_text, exports_to_keep
        )


class StepsExporter(exporters.LatestExporter):
    """Exports at some steps, or at the next evaluation after them, and keeps all models.

    Other arguments are those of `tpack.estimator.LatestExporter`.

    Args:
        steps_to_keep: the steps.
        name: of the directory.
        event_file_pattern: of paths of results in the model's directory, whose runs have exported earlier steps; None
            to start from scratch in each run.

    Raises:
        ConfigError: There are no steps, or one is not a positive number.
    """

    def __init__(
        self,
        steps_to_keep: Sequence[int],
        name: str = "steps_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)
        if not steps_to_keep:
            raise ConfigError(f"StepsExporter got steps_to_keep={shown(steps_to_keep)}: expected at least one step")
        self._steps = sorted(check_count(self, "steps_to_keep", step) for step in steps_to_keep)
        self._pattern = event_file_pattern
        self._model_dir: str | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: exporters.Results,
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model if a step is due."""
        now = int(eval_result["global_step"])
        if self._model_dir != estimator.model_dir and self._pattern is not None:
            self._model_dir = estimator.model_dir
            last = self._last_before(now)
            self._steps = [step for step in self._steps if step > last]
        due = [step for step in self._steps if step <= now]
        if not due:
            return None
        if due != [now]:
            logger.warning(f"{self.name} exports at step {now}, since no evaluation was at {', '.join(map(str, due))}")
        self._steps = [step for step in self._steps if step > now]
        return super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)

    def _last_before(self, now: int) -> int:
        """Return the last earlier step with results in event files, or 0."""
        paths = sorted(glob.glob(os.path.join(self._model_dir or "", self._pattern or "")))
        return max((step for path in paths for step, _ in exporters.results_in(path) if step < now), default=0)
