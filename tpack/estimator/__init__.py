"""Estimators: a model as one function that is trained, evaluated, used and exported, on one device or several."""

from tpack.estimator.best_exporter import BestExporter
from tpack.estimator.estimator import Estimator
from tpack.estimator.export_outputs import ClassificationOutput, ExportOutput, PredictOutput, RegressionOutput
from tpack.estimator.exporter import Exporter
from tpack.estimator.exporters import FinalExporter, LatestExporter
from tpack.estimator.mode_keys import ModeKeys
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.replicate_model_fn_with_optimizer_fn import replicate_model_fn_with_optimizer_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.serving_input import (
    ServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.estimator.train_and_evaluate import train_and_evaluate
from tpack.estimator.train_eval_specs import EvalSpec, TrainSpec
from tpack.estimator.variable_placement import VariablePlacement
from tpack.estimator.warm_start import WarmStartSettings

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
