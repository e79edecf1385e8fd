"""Distribution strategies: towers, mirrored variables and reductions behind one interface.

`MirroredStrategy` is the usual one. Model code asks `get_tower_context` where it is; it gets an answer in every
strategy's towers, in a trainer's, and outside of both.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "contexts": (
            "TowerContext=ReplicaContext",
            "UpdateContext",
            "get_cross_tower_context",
            "get_distribution_strategy",
            "get_tower_context",
            "get_update_device",
            "has_distribution_strategy",
            "require_tower_context",
        ),
        "cross_tower_ops": ("CrossTowerOps", "ReductionToOneDeviceCrossTowerOps"),
        "strategies": (
            "CollectiveAllReduceStrategy",
            "MirroredStrategy",
            "OneDeviceStrategy",
            "ParameterServerStrategy",
        ),
        "multi_step": ("MultiStepContext",),
        "steps": ("Monitor", "StandardInputStep", "StandardSingleLossStep", "Step=TrainingStep"),
        "optimizer": ("DistributedMovingAverage", "DistributedOptimizer", "increment_var"),
        "multi_device": ("PerDeviceDataset",),
        "reducer_ops": (
            "AllReduceCrossTowerOps",
            "CollectiveAllReduce",
            "MultiWorkerAllReduce",
            "ReducerCrossTowerOps",
            "choose_the_best",
        ),
        "strategy": ("DistributeConfig", "DistributionStrategy", "get_loss_reduction"),
        "values": (
            "DistributedValues",
            "MapOutput",
            "Mirrored",
            "PerDevice",
            "regroup",
            "select_device",
            "select_device_mirrored",
        ),
        "variables.replicated": ("MirroredVariable", "TowerLocalVariable"),
    },
)
