"""The exporter of the best model so far."""

import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.exporters import LatestExporter, Results


def loss_smaller(best_eval_result: Results, current_eval_result: Results) -> bool:
    """Tell whether the current result has the smaller ``loss``.

    Args:
        best_eval_result: the best so far.
        current_eval_result: the one that is new.

    Shapes:
        No tensors.

    Raises:
        ConfigError: One has no loss.

    Source:
        The default comparison of ``tf.estimator.BestExporter``.
    """
    for result in (best_eval_result, current_eval_result):
        if "loss" not in result:
            raise ConfigError(f"wanted results with a loss, got {', '.join(result)}")
    return bool(current_eval_result["loss"] < best_eval_result["loss"])


class BestExporter(LatestExporter):
    """Exports when an evaluation is better than all before, and keeps the newest models.

    Args:
        name: of the directory.
        serving_input_receiver_fn: as for `Estimator.export_saved_model`.
        event_file_pattern: of paths in the model's directory, such as ``"eval/*.tfevents.*"``: the results of earlier
            runs, which count too. None counts those of this exporter alone.
        compare_fn: takes ``best_eval_result`` and ``current_eval_result``; tells whether the latter is better.
        assets_extra: as for `Estimator.export_saved_model`.
        as_text: as for `Estimator.export_saved_model`.
        exports_to_keep: how many models are kept; None keeps all.

    Raises:
        ConfigError: There is no name, no model would be kept, or there is nothing to compare by.

    Source:
        The class of this name in ``tf.estimator``.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[..., bool] = loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        if not callable(compare_fn):
            raise ConfigError(f"compare_fn must be a function of two results, got {compare_fn!r}")
        self._pattern = event_file_pattern
        self._is_better = compare_fn
        self._best: Results | None = None

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Results, is_the_final_export: bool
    ) -> str | None:
        """Export the model if its result is the best."""
        if self._best is None and self._pattern is not None:
            self._best = self._best_before(estimator.model_dir, int(eval_result["global_step"]))
        if self._best is not None and not self._is_better(best_eval_result=self._best, current_eval_result=eval_result):
            return None
        self._best = eval_result
        return super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)

    def _best_before(self, model_dir: str, step: int) -> Results | None:
        """Return the best of the results in event files, up to a global step, which is that of the current result."""
        best: Results | None = None
        for path in sorted(glob.glob(os.path.join(model_dir, self._pattern or ""))):
            for event in tf.train.summary_iterator(path):
                result = {value.tag: value.simple_value for value in event.summary.value}
                if not result or event.step >= step:
                    continue
                if best is None or self._is_better(best_eval_result=best, current_eval_result=result):
                    best = result
        return best
