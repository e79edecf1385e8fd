"""Data points that are in memory already."""

from collections.abc import Sequence
from typing import Any

from tpack.dataflow.indexed import IndexedDataFlow
from tpack.errors import ConfigError


class DataFromList(IndexedDataFlow):
    """Yield the elements of a sequence, in a new random order on each pass or in their own.

    The elements are yielded themselves, not copies.
    """

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        """Make the flow.

        Args:
            lst: the data points, in anything that has a length and is indexed by integers.
            shuffle: whether each pass has a new order.

        Raises:
            ConfigError: ``lst`` has no length or cannot be indexed.
        """
        if not (hasattr(lst, "__len__") and hasattr(lst, "__getitem__")):
            raise ConfigError(f"DataFromList got a {type(lst).__name__}: wanted a sequence; or use DataFromIterable")
        super().__init__(shuffle)
        self.lst = lst

    def __len__(self) -> int:
        return len(self.lst)

    def _read(self, index: int) -> Any:
        return self.lst[index]
