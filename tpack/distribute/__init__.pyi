"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.distribute.contexts import ReplicaContext as TowerContext
from tpack.distribute.contexts import UpdateContext as UpdateContext
from tpack.distribute.contexts import get_cross_tower_context as get_cross_tower_context
from tpack.distribute.contexts import get_distribution_strategy as get_distribution_strategy
from tpack.distribute.contexts import get_tower_context as get_tower_context
from tpack.distribute.contexts import get_update_device as get_update_device
from tpack.distribute.contexts import has_distribution_strategy as has_distribution_strategy
from tpack.distribute.contexts import require_tower_context as require_tower_context
from tpack.distribute.cross_tower_ops import CrossTowerOps as CrossTowerOps
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps as ReductionToOneDeviceCrossTowerOps
from tpack.distribute.multi_device import PerDeviceDataset as PerDeviceDataset
from tpack.distribute.multi_step import MultiStepContext as MultiStepContext
from tpack.distribute.optimizer import DistributedMovingAverage as DistributedMovingAverage
from tpack.distribute.optimizer import DistributedOptimizer as DistributedOptimizer
from tpack.distribute.optimizer import increment_var as increment_var
from tpack.distribute.reducer_ops import AllReduceCrossTowerOps as AllReduceCrossTowerOps
from tpack.distribute.reducer_ops import CollectiveAllReduce as CollectiveAllReduce
from tpack.distribute.reducer_ops import MultiWorkerAllReduce as MultiWorkerAllReduce
from tpack.distribute.reducer_ops import ReducerCrossTowerOps as ReducerCrossTowerOps
from tpack.distribute.reducer_ops import choose_the_best as choose_the_best
from tpack.distribute.steps import Monitor as Monitor
from tpack.distribute.steps import StandardInputStep as StandardInputStep
from tpack.distribute.steps import StandardSingleLossStep as StandardSingleLossStep
from tpack.distribute.steps import TrainingStep as Step
from tpack.distribute.strategies import CollectiveAllReduceStrategy as CollectiveAllReduceStrategy
from tpack.distribute.strategies import MirroredStrategy as MirroredStrategy
from tpack.distribute.strategies import OneDeviceStrategy as OneDeviceStrategy
from tpack.distribute.strategies import ParameterServerStrategy as ParameterServerStrategy
from tpack.distribute.strategy import DistributeConfig as DistributeConfig
from tpack.distribute.strategy import DistributionStrategy as DistributionStrategy
from tpack.distribute.strategy import get_loss_reduction as get_loss_reduction
from tpack.distribute.values import DistributedValues as DistributedValues
from tpack.distribute.values import MapOutput as MapOutput
from tpack.distribute.values import Mirrored as Mirrored
from tpack.distribute.values import PerDevice as PerDevice
from tpack.distribute.values import regroup as regroup
from tpack.distribute.values import select_device as select_device
from tpack.distribute.values import select_device_mirrored as select_device_mirrored
from tpack.distribute.variables.replicated import MirroredVariable as MirroredVariable
from tpack.distribute.variables.replicated import TowerLocalVariable as TowerLocalVariable

__all__ = [
    "AllReduceCrossTowerOps",
    "CollectiveAllReduce",
    "CollectiveAllReduceStrategy",
    "CrossTowerOps",
    "DistributeConfig",
    "DistributedMovingAverage",
    "DistributedOptimizer",
    "DistributedValues",
    "DistributionStrategy",
    "MapOutput",
    "Mirrored",
    "MirroredStrategy",
    "MirroredVariable",
    "Monitor",
    "MultiStepContext",
    "MultiWorkerAllReduce",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
    "PerDevice",
    "PerDeviceDataset",
    "ReducerCrossTowerOps",
    "ReductionToOneDeviceCrossTowerOps",
    "StandardInputStep",
    "StandardSingleLossStep",
    "Step",
    "TowerContext",
    "TowerLocalVariable",
    "UpdateContext",
    "choose_the_best",
    "get_cross_tower_context",
    "get_distribution_strategy",
    "get_loss_reduction",
    "get_tower_context",
    "get_update_device",
    "has_distribution_strategy",
    "increment_var",
    "regroup",
    "require_tower_context",
    "select_device",
    "select_device_mirrored",
]
