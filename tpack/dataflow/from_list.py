"""Data points that are in memory already."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.base import RNGDataFlow
from tpack.errors import ConfigError


class DataFromList(RNGDataFlow):
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
        self.lst = lst
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.lst)

    def __iter__(self) -> Iterator[Any]:
        order = np.arange(len(self.lst))
        if self.shuffle:
            self.rng.shuffle(order)
        for index in order.tolist():
            yield self.lst[index]
