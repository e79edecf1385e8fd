"""Trainers, their configuration and the step loop."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "config": (
            "DEFAULT_CALLBACKS",
            "DEFAULT_MONITORS",
            "TrainConfig",
        ),
        "distributed": (
            "DistributedTrainerParameterServer",
            "DistributedTrainerReplicated",
        ),
        "interface": ("launch_train_with_config",),
        "loop": ("TrainLoop",),
        "multi_worker": (
            "MultiWorkerTrainerReplicated",
            "WaitLimits",
        ),
        "multi_worker_strategy": ("MultiWorkerStrategyTrainer",),
        "resume": ("AutoResumeTrainConfig",),
        "single_cost": (
            "BuilderTrainer",
            "SingleCostTrainer",
        ),
        "tower_trainer": ("TowerTrainer",),
        "trainer": ("Trainer",),
        "trainers": (
            "AsyncMultiGPUTrainer",
            "NoOpTrainer",
            "SimpleTrainer",
            "StrategyBuilder",
            "StrategyTrainer",
            "SyncMultiGPUTrainer",
            "SyncMultiGPUTrainerHierarchical",
            "SyncMultiGPUTrainerParameterServer",
            "SyncMultiGPUTrainerReplicated",
        ),
        "tpack.errors": ("StopTraining",),
        "tpack.graph_builder.model_desc": (
            "ModelDesc",
            "ModelDescBase",
        ),
    },
)
