"""``mirrored_strategy`` of ``tf.contrib.distribute``: the strategy with a copy of the variables for each device."""

from tpack.tf1.name_table import look_up

_NAMES = ("MirroredStrategy",)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.distribute:{name}" for name in _NAMES})
