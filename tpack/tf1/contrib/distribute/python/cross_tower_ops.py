"""``cross_tower_ops`` of ``tf.contrib.distribute``: how values are moved and summed between devices."""

from tpack.tf1.name_table import look_up

_OPS = (
    "AllReduceCrossTowerOps CollectiveAllReduce CrossTowerOps MultiWorkerAllReduce ReductionToOneDeviceCrossTowerOps "
    "choose_the_best"
)
_FUNCTIONS = ("check_destinations", "get_devices_from", "validate_destinations")
_PLACES = {name: f"tpack.distribute:{name}" for name in _OPS.split()}
_PLACES |= {name: f"tpack.distribute.cross_tower_ops:{name}" for name in _FUNCTIONS}
_PLACES |= {name: f"tpack.reduction:{name}" for name in ("AggregateSmallTensorPacker", "ConcatAndSplitPacker")}

__getattr__, __dir__, __all__ = look_up(__name__, _PLACES)
