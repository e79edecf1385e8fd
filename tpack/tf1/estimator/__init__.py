"""``tf.estimator`` of TensorFlow 1: tpack's estimators, and the ready-made models on top of them."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "baseline": "BaselineClassifier BaselineEstimator BaselineRegressor",
        "canned": "DNNClassifier DNNEstimator DNNRegressor LinearClassifier LinearEstimator LinearRegressor",
        "dnn_linear_combined": "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor",
        "extenders": "add_metrics",
        "heads.base": "Head",
        "heads.classification": "BinaryClassHead MultiClassHead MultiLabelHead",
        "heads.multi": "MultiHead",
        "heads.regression": "LogisticRegressionHead PoissonRegressionHead RegressionHead",
        "tpack.tf1.estimator.experimental": "",
        "export": "export= BestExporter classifier_parse_example_spec regressor_parse_example_spec",
        "inputs": "",
        "tpack.tf1.estimator.tpu": "",
        "tpu_estimator": "RunConfig",
        "tpack.estimator": (
            "Estimator EstimatorSpec EvalSpec Exporter FinalExporter LatestExporter ModeKeys TrainSpec "
            "WarmStartSettings train_and_evaluate"
        ),
        "tensorflow.compat.v1.train": (
            "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
            "LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer SessionRunArgs "
            "SessionRunContext SessionRunHook SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook "
            "VocabInfo"
        ),
    },
)
