"""Estimators: a model as one function that is trained, evaluated, used and exported, on one device or several."""

from tpack.estimator.building import WarmStartSettings
from tpack.estimator.estimator import Estimator
from tpack.estimator.exporters import BestExporter, Exporter, FinalExporter, LatestExporter
from tpack.estimator.inputs import (
    ServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)
from tpack.estimator.replicate_model_fn import replicate_model_fn, replicate_model_fn_with_optimizer_fn
from tpack.estimator.replicated import VariablePlacement
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import (
    ClassificationOutput,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    PredictOutput,
    RegressionOutput,
)
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "BestExporter",
    "ClassificationOutput",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "ExportOutput",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "ModeKeys",
    "PredictOutput",
    "RegressionOutput",
    "RunConfig",
    "ServingInputReceiver",
    "TowerOptimizer",
    "TrainSpec",
    "VariablePlacement",
    "WarmStartSettings",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
    "replicate_model_fn",
    "replicate_model_fn_with_optimizer_fn",
    "train_and_evaluate",
]
