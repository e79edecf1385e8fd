"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.estimator.building import WarmStartSettings as WarmStartSettings
from tpack.estimator.estimator import Estimator as Estimator
from tpack.estimator.exporters import BestExporter as BestExporter
from tpack.estimator.exporters import Exporter as Exporter
from tpack.estimator.exporters import FinalExporter as FinalExporter
from tpack.estimator.exporters import LatestExporter as LatestExporter
from tpack.estimator.inputs import ServingInputReceiver as ServingInputReceiver
from tpack.estimator.inputs import build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn
from tpack.estimator.inputs import build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn
from tpack.estimator.replicate_model_fn import replicate_model_fn as replicate_model_fn
from tpack.estimator.replicate_model_fn import (
    replicate_model_fn_with_optimizer_fn as replicate_model_fn_with_optimizer_fn,
)
from tpack.estimator.replicated import VariablePlacement as VariablePlacement
from tpack.estimator.run_config import RunConfig as RunConfig
from tpack.estimator.spec import ClassificationOutput as ClassificationOutput
from tpack.estimator.spec import EstimatorSpec as EstimatorSpec
from tpack.estimator.spec import ExportOutput as ExportOutput
from tpack.estimator.spec import ModeKeys as ModeKeys
from tpack.estimator.spec import PredictOutput as PredictOutput
from tpack.estimator.spec import RegressionOutput as RegressionOutput
from tpack.estimator.tower_optimizer import TowerOptimizer as TowerOptimizer
from tpack.estimator.train_and_evaluate import EvalSpec as EvalSpec
from tpack.estimator.train_and_evaluate import TrainSpec as TrainSpec
from tpack.estimator.train_and_evaluate import train_and_evaluate as train_and_evaluate
