"""What `train_and_evaluate` does with a model after each evaluation: export it always, at the end, or if it is best."""

import abc
import glob
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from tpack.errors import ConfigError
from tpack.estimator.inputs import ServingInputReceiver
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_text

Results = Mapping[str, Any]


class ExportableModel(Protocol):
    """The part of an `Estimator` that exporters use."""

    @property
    def model_dir(self) -> str:
        """The directory of the model."""

    @property
    def export_saved_model(self) -> Callable[..., str]:
        """The function that writes a SavedModel and returns its path."""


class Exporter(abc.ABC):
    """Decides whether a model that was evaluated is exported, and exports it.

    Source:
        ``tf.estimator.Exporter`` of TensorFlow 1.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the directory that exports go to, in ``export`` of the model's."""

    @abc.abstractmethod
    def export(
        self,
        estimator: ExportableModel,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results,
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model, or leave it.

        Args:
            estimator: the `Estimator`.
            export_path: the directory for exports of this exporter.
            checkpoint_path: the checkpoint that was evaluated.
            eval_result: what the evaluation returned.
            is_the_final_export: whether training has ended.

        Returns:
            The path of the model that was written, or None.
        """


@check_arguments
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
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        check_text(self, "name", name)
        if exports_to_keep is not None and exports_to_keep < 1:
            raise ConfigError(f"exports_to_keep must be positive, got {exports_to_keep!r}")
        self._name = name
        self._receive = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self._name

    def export(
        self,
        estimator: ExportableModel,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results,
        is_the_final_export: bool,
    ) -> str | None:
        """Export the model if it is time, and delete the oldest ones beyond the number to keep."""
        if not self._is_due(estimator, eval_result, is_final=is_the_final_export):
            return None
        path = estimator.export_saved_model(
            export_path,
            self._receive,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        exports = sorted((int(name), name) for name in os.listdir(export_path) if name.isdigit())
        if self._exports_to_keep is not None:
            for _, name in exports[: -self._exports_to_keep]:
                shutil.rmtree(os.path.join(export_path, name))
        return path

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        """Tell whether to export the model after this evaluation; subclasses override it."""
        del estimator, result, is_final
        return True


@check_arguments
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
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        return is_final


def loss_smaller(best_eval_result: Results, current_eval_result: Results) -> bool:
    """Tell whether the current result has the smaller ``loss``.

    Args:
        best_eval_result: the best so far.
        current_eval_result: the one that is new.

    Raises:
        ConfigError: One has no loss.

    Source:
        The default comparison of ``tf.estimator.BestExporter``.
    """
    for result in (best_eval_result, current_eval_result):
        if "loss" not in result:
            raise ConfigError(f"expected results with a loss, got {', '.join(result)}")
    return bool(current_eval_result["loss"] < best_eval_result["loss"])


@check_arguments
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
        self._pattern = event_file_pattern
        self._is_better = compare_fn
        self._best: Results | None = None

    def _is_due(self, estimator: ExportableModel, result: Results, *, is_final: bool) -> bool:
        if self._best is None and self._pattern is not None:
            self._best = self._best_before(estimator.model_dir, int(result["global_step"]))
        if self._best is not None and not self._is_better(best_eval_result=self._best, current_eval_result=result):
            return False
        self._best = result
        return True

    def _best_before(self, model_dir: str, step: int) -> Results | None:
        """Return the best of the results in event files, up to a global step, which is that of the current result."""
        best: Results | None = None
        for path in sorted(glob.glob(os.path.join(model_dir, self._pattern or ""))):
            for found_at, result in results_in(path):
                if found_at >= step:
                    continue
                if best is None or self._is_better(best_eval_result=best, current_eval_result=result):
                    best = result
        return best


def results_in(path: str) -> Iterator[tuple[int, Results]]:
    """Yield the scalars of an event file and the steps that they are of, up to where it is damaged.

    A run that was killed leaves an event file that ends in the middle of an event. A warning says so.

    Args:
        path: the file.
    """
    try:
        for event in tf.train.summary_iterator(path):
            result = {value.tag: value.simple_value for value in event.summary.value}
            if result:
                yield int(event.step), result
    except (tf.errors.OpError, DecodeError) as error:
        logger.warning(f"The event file {path} is damaged, and is not read beyond that place: {error}")
