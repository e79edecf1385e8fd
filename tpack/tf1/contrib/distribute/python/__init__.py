"""Where ``tf.contrib.distribute`` kept its modules."""

from tpack.tf1.name_table import look_up

_MODULES = (
    "collective_all_reduce_strategy cross_tower_ops mirrored_strategy monitor one_device_strategy "
    "parameter_server_strategy step_fn values"
)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"{__name__}.{name}" for name in _MODULES.split()})
