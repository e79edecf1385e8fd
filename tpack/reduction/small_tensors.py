"""Join runs of small gradients, and leave the large ones alone.

Most gradients of a network are small (biases, normalization), and each costs the fixed time of a reduction. Joining
them saves that time and copies next to nothing. As a run holds neighbours, which become ready at about the same time,
reduction still starts before the backward pass ends.
"""

import functools
from collections.abc import Sequence

from tpack.errors import ConfigError
from tpack.reduction.base import Column, Reducer
from tpack.reduction.flat import static_bytes
from tpack.reduction.tensor_packing import TensorPackingReducer
from tpack.reduction.wrappers.packers import TensorPacker


class AggregateSmallTensorPacker(TensorPacker):
    """Pack each run of consecutive small gradients of one dtype into one vector, in the place of the run.

    Gradients of unknown size are left alone, as large ones are.

    Args:
        agg_small_grads_max_bytes: the largest size of a gradient that is packed, in bytes.
        agg_small_grads_max_group: how many gradients go into one vector at most.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The packer of this name in the seed's ``cross_tower_ops``, which packs float32 only and puts the packs first.
    """

    def __init__(self, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16) -> None:
        if agg_small_grads_max_bytes < 1 or agg_small_grads_max_group < 1:
            raise ConfigError(
                "wanted agg_small_grads_max_bytes and agg_small_grads_max_group of 1 or more, got "
                f"{agg_small_grads_max_bytes} and {agg_small_grads_max_group}"
            )
        super().__init__()
        self._max_bytes = agg_small_grads_max_bytes
        self._max_group = agg_small_grads_max_group

    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        groups: list[list[int]] = []
        dtype_of_run = None
        for n, column in enumerate(columns):
            dtype = column[0].dtype.base_dtype if static_bytes(column) <= self._max_bytes else None
            if dtype is not None and dtype == dtype_of_run and len(groups[-1]) < self._max_group:
                groups[-1].append(n)
            else:
                groups.append([n])
            dtype_of_run = dtype
        return groups


class AggregateSmallTensorPackingReducer(TensorPackingReducer):
    """Reduce what `AggregateSmallTensorPacker` makes of the dense gradients.

    Args:
        inner: what reduces the joined and the large gradients.
        agg_small_grads_max_bytes: the largest size of a gradient that is packed, in bytes.
        agg_small_grads_max_group: how many gradients go into one vector at most.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The seed's ``AllReduceCrossTowerOps`` with ``agg_small_grads_max_bytes``.
    """

    def __init__(
        self, inner: Reducer, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16
    ) -> None:
        make_packer = functools.partial(
            AggregateSmallTensorPacker, agg_small_grads_max_bytes, agg_small_grads_max_group
        )
        super().__init__(inner, "small_tensors", make_packer)
