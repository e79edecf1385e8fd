"""``collective_all_reduce_strategy`` of ``tf.contrib.distribute``: the strategy whose workers sum by collectives."""

from tpack.tf1.name_table import look_up

_NAMES = ("CollectiveAllReduceStrategy",)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.distribute:{name}" for name in _NAMES})
