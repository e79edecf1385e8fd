"""The tower mechanism: names, devices, placement, collections, variable getters, contexts and handles."""

from tpack.tower.collections import CollectionSnapshot, backup_collection, freeze_collection, restore_collection
from tpack.tower.context import (
    PredictTowerContext,
    TowerContext,
    TrainTowerContext,
    current_tower_context,
    get_current_tower_context,
)
from tpack.tower.devices import (
    LeastLoadedDeviceSetter,
    canonical_device,
    check_session_devices,
    list_gpus,
    provide_cpu_devices,
    required_cpu_devices,
    resolve_device,
    resolve_devices,
)
from tpack.tower.getters import OverrideCachingDevice, custom_getter_scope, full_precision, override_to_local_variable
from tpack.tower.names import op_and_tensor_name, tower_name
from tpack.tower.recorder import VariableRecorder, pair_variables
from tpack.tower.rendezvous import call_in_towers
from tpack.tower.tower_func import TowerFunc, TowerHandle, TowerHandles
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "CollectionSnapshot",
    "LeastLoadedDeviceSetter",
    "OverrideCachingDevice",
    "PredictTowerContext",
    "TowerContext",
    "TowerFunc",
    "TowerHandle",
    "TowerHandles",
    "TrainTowerContext",
    "VariableRecorder",
    "backup_collection",
    "call_in_towers",
    "canonical_device",
    "check_session_devices",
    "current_tower_context",
    "custom_getter_scope",
    "freeze_collection",
    "full_precision",
    "get_current_tower_context",
    "list_gpus",
    "op_and_tensor_name",
    "override_to_local_variable",
    "pair_variables",
    "provide_cpu_devices",
    "required_cpu_devices",
    "resolve_device",
    "resolve_devices",
    "restore_collection",
    "tower_name",
]
