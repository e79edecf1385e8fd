"""``tf.contrib.distribute``: the strategies of `tpack.distribute`, under the names of TensorFlow 1.8 to 1.15."""

from tpack.tf1.name_table import look_up

_SAME = (
    "AllReduceCrossTowerOps CollectiveAllReduceStrategy CrossTowerOps DistributeConfig DistributionStrategy "
    "MirroredStrategy Monitor MultiWorkerAllReduce OneDeviceStrategy ParameterServerStrategy "
    "ReductionToOneDeviceCrossTowerOps StandardInputStep StandardSingleLossStep Step TowerContext UpdateContext "
    "get_cross_tower_context get_distribution_strategy get_loss_reduction get_tower_context has_distribution_strategy "
    "require_tower_context"
)
# What was a tower is called a replica since TensorFlow 1.13.
_RENAMED = {
    "AllReduceCrossDeviceOps": "AllReduceCrossTowerOps",
    "CrossDeviceOps": "CrossTowerOps",
    "ReductionToOneDeviceCrossDeviceOps": "ReductionToOneDeviceCrossTowerOps",
    "ReplicaContext": "TowerContext",
    "get_cross_replica_context": "get_cross_tower_context",
    "get_replica_context": "get_tower_context",
    "get_strategy": "get_distribution_strategy",
    "has_strategy": "has_distribution_strategy",
    "require_replica_context": "require_tower_context",
}
_PLACES = {name: f"tpack.distribute:{name}" for name in _SAME.split()}
_PLACES |= {name: f"tpack.distribute:{now}" for name, now in _RENAMED.items()}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
