"""Names of TensorFlow 1 that exist nowhere any more, and what to use in their place: one table.

A package of `tpack.tf1` raises what `missing_name` makes when it is asked for a name that it does not have. The message
is that of the table if the name stands there, alone or as a part of a namespace that is gone as a whole, and else names
those that are near.
"""

import importlib
import sys
from collections.abc import Iterable

from tpack.errors import MissingNameError

_ROOT = "tpack.tf1"

# The name as scripts write it after ``tf.``, and what to use in its place: a sentence without a capital and full stop.
MISSING: dict[str, str] = {
    "contrib.tpu": "there are no TPUs here; its TPUEstimator(use_tpu=False) and the trainers run on GPUs and CPUs",
    "contrib.tensor_forest": "use the package tensorflow_decision_forests, or scikit-learn",
    "estimator.BoostedTreesClassifier": "use a DNNClassifier, or the package tensorflow_decision_forests or xgboost",
    "estimator.BoostedTreesEstimator": "use a DNNEstimator, or the package tensorflow_decision_forests or xgboost",
    "estimator.BoostedTreesRegressor": "use a DNNRegressor, or the package tensorflow_decision_forests or xgboost",
    "estimator.tpu": "there are no TPUs here; its TPUEstimator(use_tpu=False) trains on GPUs and CPUs",
    "estimator.experimental.KMeans": "use the package scikit-learn",
    "estimator.experimental.LinearSDCA": "give a LinearClassifier or LinearRegressor the optimizer 'Ftrl'",
    "estimator.experimental.build_raw_supervised_input_receiver_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "estimator.inputs.keras_input_fn": "use tf.estimator.inputs.numpy_input_fn",
    "contrib.estimator.DNNClassifierWithLayerAnnotations": "use tf.estimator.DNNClassifier",
    "contrib.estimator.DNNRegressorWithLayerAnnotations": "use tf.estimator.DNNRegressor",
    "contrib.estimator.RNNClassifier": "write a model_fn with tf.nn.dynamic_rnn and a head such as multi_class_head",
    "contrib.estimator.RNNEstimator": "write a model_fn with tf.nn.dynamic_rnn and a head such as multi_class_head",
    "contrib.estimator.SavedModelEstimator": "load the model by tf.saved_model.load, or tpack.predict",
    "contrib.estimator.boosted_trees_classifier_train_in_memory": "use the package xgboost",
    "contrib.estimator.boosted_trees_regressor_train_in_memory": "use the package xgboost",
    "contrib.estimator.build_raw_supervised_input_receiver_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "contrib.estimator.build_supervised_input_receiver_fn_from_input_fn": (
        "models are exported for prediction alone: use tf.estimator.export.build_raw_serving_input_receiver_fn"
    ),
    "contrib.estimator.export_all_saved_models": "use Estimator.export_saved_model, which exports for prediction",
    "contrib.estimator.export_saved_model_for_mode": "use Estimator.export_saved_model, which exports for prediction",
}


def missing_name(module: str, name: str, known: Iterable[str] = ()) -> Exception:
    """Make the error for a name that a package of `tpack.tf1` does not have.

    ``from tpack.tf1.contrib import tpu`` would hide it behind an error of Python's own, so that gets it as the
    ImportError that it is to become anyway.

    Args:
        module: the ``__name__`` of the package.
        name: what it was asked for.
        known: names that it has, to name those near one that stands in no table.

    Returns:
        The error, to be raised.
    """
    wanted = f"{module}.{name}".removeprefix(f"{_ROOT}.")
    message = f"tf.{wanted} is not there: {_reason(wanted) or _near(name, known)}"
    # The frames are those of this function, of the package's ``__getattr__``, and of who asks.
    if sys._getframe(2).f_code.co_name == "_handle_fromlist" and _reason(wanted):
        return ImportError(message, name=module)
    return MissingNameError(message)


def _reason(wanted: str) -> str | None:
    """Return what the table says of a name, or of the longest namespace that it is in."""
    parts = wanted.split(".")
    prefixes = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return next((MISSING[prefix] for prefix in prefixes if prefix in MISSING), None)


def _near(name: str, known: Iterable[str]) -> str:
    """Name those that are near a name, ours or TensorFlow's."""
    # Imported here, since it takes longer to import than all that ``import tpack`` needs.
    near = importlib.import_module("difflib").get_close_matches(name, known)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"neither TensorFlow nor tpack has it{hint}"
