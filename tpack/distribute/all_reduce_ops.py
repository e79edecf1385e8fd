"""Cross-tower operations by an all-reduce algorithm that is named, on packed tensors."""

from collections.abc import Sequence

from tpack.distribute.packing import Packing
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.reduction.base import Reducer
from tpack.reduction.names import check_algorithm, make_reducer

_SEED_NAMES = {"hierarchical_copy": "hierarchical"}


class AllReduceCrossTowerOps(ReducerCrossTowerOps):
    """Reduce by an all-reduce where values end on the devices that they come from.

    See `ReducerCrossTowerOps` for the others. Of the ways to pack, the first one that is asked for is taken.

    Args:
        all_reduce_alg: ``"nccl"``, ``"hierarchical_copy"``, or another name that `make_reducer` knows. An algorithm
            that cannot serve the devices, as NCCL those that are no GPUs, is an error and not replaced.
        num_packs: concatenate all tensors and cut them into so many packs; 0 for no such packs.
        agg_small_grads_max_bytes: join tensors of up to this size; 0 joins none.
        agg_small_grads_max_group: how many of them are joined to one at most; 0 joins none.

    Raises:
        ConfigError: There is no such algorithm, or a number is negative.

    Source:
        The class of this name in the seed's ``cross_tower_ops``.
    """

    def __init__(
        self,
        all_reduce_alg: str = "nccl",
        num_packs: int = 1,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        self._algorithm = _SEED_NAMES.get(all_reduce_alg, all_reduce_alg)
        check_algorithm(self._algorithm)
        self._packing = Packing(num_packs, agg_small_grads_max_bytes, agg_small_grads_max_group)

    @property
    def name(self) -> str:
        """What reduces, for logs."""
        return self._algorithm

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        return self._packing.wrap(make_reducer(self._algorithm, devices))
