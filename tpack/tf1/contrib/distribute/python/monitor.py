"""``monitor`` of ``tf.contrib.distribute``: what runs the steps of a strategy."""

from tpack.tf1.name_table import look_up

_NAMES = ("Monitor",)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.distribute:{name}" for name in _NAMES})
