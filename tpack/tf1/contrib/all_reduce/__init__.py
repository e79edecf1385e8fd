"""``tf.contrib.all_reduce``: sums over devices, in a ring and otherwise."""

from tpack.tf1.name_table import look_up

_FUNCTIONS = ("nccl_all_reduce", "recursive_hd_all_reduce", "ring_all_reduce", "shuffle_all_reduce")

__getattr__, __dir__, __all__ = look_up(
    __name__, {f"build_{name}": f"{__name__}.python.all_reduce:build_{name}" for name in _FUNCTIONS}
)
