"""Estimators: train, evaluate, use and export a model written as one function, on one device or several."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "building": ("WarmStartSettings",),
        "estimator": ("Estimator",),
        "exporters": ("BestExporter", "Exporter", "FinalExporter", "LatestExporter"),
        "inputs": (
            "ServingInputReceiver",
            "build_parsing_serving_input_receiver_fn",
            "build_raw_serving_input_receiver_fn",
        ),
        "replicate_model_fn": ("replicate_model_fn", "replicate_model_fn_with_optimizer_fn"),
        "replicated": ("VariablePlacement",),
        "run_config": ("RunConfig",),
        "spec": (
            "ClassificationOutput",
            "EstimatorSpec",
            "ExportOutput",
            "ModeKeys",
            "PredictOutput",
            "RegressionOutput",
        ),
        "tower_optimizer": ("TowerOptimizer",),
        "train_and_evaluate": ("EvalSpec", "TrainSpec", "train_and_evaluate"),
    },
)
