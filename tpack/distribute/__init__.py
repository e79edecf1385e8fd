"""Distribution strategies: towers, mirrored variables and reductions behind one interface.

`MirroredStrategy` is the usual one. Model code asks `get_tower_context` where it is; it gets an answer in every
strategy's towers, in a trainer's, and outside of both.
"""

from tpack.distribute.contexts import TowerContext, UpdateContext, get_update_device, require_tower_context
from tpack.distribute.cross_tower_ops import CrossTowerOps, ReductionToOneDeviceCrossTowerOps
from tpack.distribute.current import (
    get_cross_tower_context,
    get_distribution_strategy,
    get_tower_context,
    has_distribution_strategy,
)
from tpack.distribute.mirrored import CollectiveAllReduceStrategy, MirroredStrategy
from tpack.distribute.multi_step import MultiStepContext
from tpack.distribute.one_device import OneDeviceStrategy
from tpack.distribute.optimizer import DistributedMovingAverage, DistributedOptimizer, increment_var
from tpack.distribute.parameter_server import ParameterServerStrategy
from tpack.distribute.per_device_dataset import PerDeviceDataset
from tpack.distribute.reducer_ops import (
    AllReduceCrossTowerOps,
    CollectiveAllReduce,
    MultiWorkerAllReduce,
    ReducerCrossTowerOps,
    choose_the_best,
)
from tpack.distribute.steps import Monitor, StandardInputStep, StandardSingleLossStep, Step
from tpack.distribute.strategy import DistributeConfig, DistributionStrategy, get_loss_reduction
from tpack.distribute.values import (
    DistributedValues,
    MapOutput,
    Mirrored,
    PerDevice,
    regroup,
    select_device,
    select_device_mirrored,
)
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.distribute.variables.tower_local import TowerLocalVariable
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

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
