"""``tf.estimator`` of TensorFlow 1: tpack's estimators, and the ready-made models on top of them."""

from tpack.tf1.name_table import look_up

# Modules of this package, and the names that they give.
_OWN = {
    "baseline": "BaselineClassifier BaselineEstimator BaselineRegressor",
    "dnn": "DNNClassifier DNNEstimator DNNRegressor",
    "dnn_linear_combined": "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor",
    "exporters": "BestExporter",
    "extenders": "add_metrics",
    "heads.base": "Head",
    "heads.classification": "BinaryClassHead MultiClassHead",
    "heads.multi": "MultiHead",
    "heads.multi_label": "MultiLabelHead",
    "heads.regression": "LogisticRegressionHead PoissonRegressionHead RegressionHead",
    "linear": "LinearClassifier LinearEstimator LinearRegressor",
    "parsing": "classifier_parse_example_spec regressor_parse_example_spec",
    "run_config": "RunConfig",
}
_NAMESPACES = "experimental export inputs tpu"
_OF_TPACK = (
    "Estimator EstimatorSpec EvalSpec Exporter FinalExporter LatestExporter ModeKeys TrainSpec WarmStartSettings "
    "train_and_evaluate"
)
_OF_TRAIN = (
    "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook "
    "NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer SessionRunArgs SessionRunContext "
    "SessionRunHook SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook VocabInfo"
)
_PLACES = {
    **{name: f"{__name__}.{module}:{name}" for module, names in _OWN.items() for name in names.split()},
    **{name: f"{__name__}.{name}" for name in _NAMESPACES.split()},
    **{name: f"tpack.estimator:{name}" for name in _OF_TPACK.split()},
    **{name: f"tf.train.{name}" for name in _OF_TRAIN.split()},
}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
