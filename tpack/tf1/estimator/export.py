"""``tf.estimator.export``: inputs and outputs of an exported model; parsing specs, and exporters of TensorFlow 1.15."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator import exporters, inputs
from tpack.estimator.spec import Tensors
from tpack.tf1.name_table import look_up
from tpack.tf1.signatures import like
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_text, shown

_SINGLE_FEATURE = "feature"


class ServingInputReceiver(inputs.ServingInputReceiver):
    """The features of a served model, and the tensors that are fed; a single feature is called ``feature``.

    Args:
        features: a dict of tensors, or one tensor.
        receiver_tensors: as for `tpack.estimator.ServingInputReceiver`.
        receiver_tensors_alternatives: as for `tpack.estimator.ServingInputReceiver`.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Tensors,
        receiver_tensors: Tensors,
        receiver_tensors_alternatives: Mapping[str, Tensors] | None = None,
    ) -> "ServingInputReceiver":
        """Name a single feature."""
        named = {_SINGLE_FEATURE: features} if isinstance(features, tf.Tensor | tf.SparseTensor) else features
        return super().__new__(cls, named, receiver_tensors, receiver_tensors_alternatives)


class TensorServingInputReceiver(inputs.ServingInputReceiver):
    """The one tensor of features of a served model, and the tensors that are fed."""

    __slots__ = ()


__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "tpack.estimator": (
            "ClassificationOutput ExportOutput PredictOutput RegressionOutput build_parsing_serving_input_receiver_fn "
            "build_raw_serving_input_receiver_fn"
        )
    },
    own=("ServingInputReceiver", "TensorServingInputReceiver"),
)


@check_arguments
def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Return the parsing spec of a classifier's examples.

    Args:
        feature_columns: the columns of the model.
        label_key: the name of the label.
        label_dtype: ``tf.int64``, or ``tf.string`` for a classifier with a ``label_vocabulary``.
        label_default: the label of an example without one; None for an error.
        weight_column: a key, or a numeric column.

    Raises:
        ConfigError: A label or weight has the name of a feature, or the ``weight_column`` is something else.
    """
    return _spec(1, **locals())


@check_arguments
@like(classifier_parse_example_spec, after={"label_default": {"label_dimension": 1}}, label_dtype=tf.float32)
def regressor_parse_example_spec(label_dimension: int, **given: Any) -> dict[str, Any]:
    """Return the parsing spec of a regressor's examples.

    Args:
        label_dtype: of the label.
        label_dimension: the number of numbers of a label.
        **given: see `classifier_parse_example_spec`.

    Raises:
        ConfigError: As for `classifier_parse_example_spec`.
    """
    return _spec(check_count("regressor_parse_example_spec", "label_dimension", label_dimension), **given)


def _spec(
    width: int, *, feature_columns: Any, label_key: str, label_dtype: Any, label_default: Any, weight_column: Any
) -> dict[str, Any]:
    spec = dict(tf.feature_column.make_parse_example_spec(feature_columns))
    label_key = check_text("a parsing spec", "label_key", label_key)
    if label_key in spec:
        raise ConfigError(f"got label_key={label_key!r}: expected another name than that of a feature")
    spec[label_key] = tf.io.FixedLenFeature((width,), tf.as_dtype(label_dtype), label_default)
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    key = getattr(weight_column, "key", None)
    if not isinstance(key, str):
        raise ConfigError(f"got weight_column={weight_column!r}: expected a key or a numeric column")
    if key in spec:
        raise ConfigError(f"got weight_column {key!r}: expected another name than that of the label or a feature")
    spec.update(tf.feature_column.make_parse_example_spec([weight_column]))
    return spec


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
