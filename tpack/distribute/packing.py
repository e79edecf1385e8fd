"""Which packing the seed's three numbers ask for."""

from dataclasses import dataclass

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer
from tpack.reduction.wrappers.packers import AggregateSmallTensorPackingReducer, ConcatAndSplitPackingReducer


@dataclass(frozen=True)
class Packing:
    """How tensors are packed before they are reduced: into packs of one size, or small ones together, or not.

    Args:
        num_packs: concatenate all tensors and cut them into so many packs; with 0, the other two numbers count.
        small_max_bytes: join tensors of up to this size; 0 joins none.
        small_max_group: how many of them are joined to one at most; 0 joins none.

    Raises:
        ConfigError: A number is negative.
    """

    num_packs: int
    small_max_bytes: int
    small_max_group: int

    def __post_init__(self) -> None:
        if min(self.num_packs, self.small_max_bytes, self.small_max_group) < 0:
            raise ConfigError(
                "wanted num_packs, agg_small_grads_max_bytes and agg_small_grads_max_group of 0 or more, got "
                f"{self.num_packs}, {self.small_max_bytes} and {self.small_max_group}"
            )

    def wrap(self, reducer: Reducer) -> Reducer:
        """Return a reducer that packs for another one, or that one itself."""
        if self.num_packs:
            return ConcatAndSplitPackingReducer(reducer, self.num_packs)
        if self.small_max_bytes and self.small_max_group:
            return AggregateSmallTensorPackingReducer(reducer, self.small_max_bytes, self.small_max_group)
        return reducer
