"""``values`` of ``tf.contrib.distribute``: values with a part for each device."""

from tpack.tf1.name_table import look_up

_NAMES = (
    "DistributedValues MapOutput Mirrored MirroredVariable MultiStepContext PerDevice PerDeviceDataset "
    "TowerLocalVariable regroup select_device select_device_mirrored"
)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.distribute:{name}" for name in _NAMES.split()})
