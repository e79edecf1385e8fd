"""Where ``tf.contrib.all_reduce`` kept its module."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(__name__, {"all_reduce": f"{__name__}.all_reduce"})
