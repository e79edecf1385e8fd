"""The tower mechanism: names, devices, placement, collections, variable getters, contexts and handles."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "collections": ("CollectionSnapshot", "backup_collection", "freeze_collection", "restore_collection"),
        "context": (
            "PredictTowerContext",
            "TowerContext",
            "TrainTowerContext",
            "current_tower_context",
            "get_current_tower_context",
        ),
        "devices": (
            "LeastLoadedDeviceSetter",
            "canonical_device",
            "check_session_devices",
            "list_gpus",
            "provide_cpu_devices",
            "required_cpu_devices",
            "resolve_device",
            "resolve_devices",
        ),
        "getters": ("OverrideCachingDevice", "custom_getter_scope", "full_precision", "override_to_local_variable"),
        "names": ("op_and_tensor_name", "tower_name"),
        "ownership": ("VariableRecorder", "pair_variables"),
        "tower_threads": ("call_in_towers",),
        "tower_func": ("TowerFunc", "TowerHandle", "TowerHandles"),
    },
)
