"""Distribution strategies: towers, mirrored variables and reductions behind one interface.

`MirroredStrategy` is the usual one. Model code asks `get_tower_context` where it is; it gets an answer in every
strategy's towers, in a trainer's, and outside of both.
"""

from tpack.distribute.all_reduce_ops import AllReduceCrossTowerOps
from tpack.distribute.choose_ops import choose_the_best
from tpack.distribute.collective import CollectiveAllReduceStrategy
from tpack.distribute.collective_ops import CollectiveAllReduce
from tpack.distribute.contexts import require_tower_context
from tpack.distribute.cross_tower_ops import CrossTowerOps
from tpack.distribute.current import (
    get_cross_tower_context,
    get_distribution_strategy,
    get_tower_context,
    has_distribution_strategy,
)
from tpack.distribute.increment import increment_var
from tpack.distribute.loss import get_loss_reduction
from tpack.distribute.mirrored import MirroredStrategy
from tpack.distribute.moving_average import DistributedMovingAverage
from tpack.distribute.multi_worker_ops import MultiWorkerAllReduce
from tpack.distribute.one_device import OneDeviceStrategy
from tpack.distribute.one_device_ops import ReductionToOneDeviceCrossTowerOps
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.parameter_server import ParameterServerStrategy
from tpack.distribute.per_device_dataset import PerDeviceDataset
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.distribute.regroup import regroup, select_device, select_device_mirrored
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.tower_context import TowerContext
from tpack.distribute.update_context import UpdateContext, get_update_device
from tpack.distribute.values import DistributedValues, MapOutput, Mirrored, PerDevice
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.distribute.variables.tower_local import TowerLocalVariable

__all__ = [
    "AllReduceCrossTowerOps",
    "CollectiveAllReduce",
    "CollectiveAllReduceStrategy",
    "CrossTowerOps",
    "DistributedMovingAverage",
    "DistributedOptimizer",
    "DistributedValues",
    "DistributionStrategy",
    "MapOutput",
    "Mirrored",
    "MirroredStrategy",
    "MirroredVariable",
    "MultiWorkerAllReduce",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
    "PerDevice",
    "PerDeviceDataset",
    "ReducerCrossTowerOps",
    "ReductionToOneDeviceCrossTowerOps",
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
