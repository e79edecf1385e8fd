"""Trainers, their configuration and the step loop."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "config": ("DEFAULT_CALLBACKS", "DEFAULT_MONITORS", "TrainConfig"),
        "tpack.multi_worker.ps_trainer": ("DistributedTrainerParameterServer", "DistributedTrainerReplicated"),
        "interface": ("launch_train_with_config",),
        "loop": ("TrainLoop",),
        "tpack.multi_worker.replicated_trainer": ("MultiWorkerTrainerReplicated",),
        "tpack.multi_worker.trainer": ("WaitLimits",),
        "tpack.multi_worker.strategy_trainer": ("MultiWorkerStrategyTrainer",),
        "resume": ("AutoResumeTrainConfig",),
        "single_cost": ("BuilderTrainer", "SingleCostTrainer", "TowerTrainer"),
        "tpack.distribute.trainer": ("StrategyBuilder", "StrategyTrainer"),
        "trainer": ("Trainer",),
        "trainers": (
            "AsyncMultiGPUTrainer",
            "NoOpTrainer",
            "SimpleTrainer",
            "SyncMultiGPUTrainer",
            "SyncMultiGPUTrainerHierarchical",
            "SyncMultiGPUTrainerParameterServer",
            "SyncMultiGPUTrainerReplicated",
        ),
        "tpack.errors": ("StopTraining",),
        "tpack.graph_builder.model_desc": ("ModelDesc", "ModelDescBase"),
    },
)
