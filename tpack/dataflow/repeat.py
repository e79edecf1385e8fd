"""A flow several times, or for ever."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, UnknownLengthError
from tpack.dataflow.checks import check_at_least
from tpack.errors import DataExhaustedError


class RepeatedData(ProxyDataFlow):
    """Go through the wrapped flow several times in one pass."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num: how many times; -1 is for ever.

        Raises:
            ConfigError: The number is neither -1 nor at least 1.
        """
        super().__init__(ds)
        self.num = num if num == -1 else check_at_least(self, "num", num)

    def __len__(self) -> int:
        """Return the number of data points.

        Raises:
            UnknownLengthError: The flow is repeated for ever, or does not know its length.
        """
        if self.num == -1:
            raise UnknownLengthError("RepeatedData(ds, -1) goes on for ever and has no length")
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataExhaustedError: The wrapped flow ended without one data point; repeating it might never end.
        """
        finished = 0
        while finished != self.num:
            is_empty = True
            for point in self.ds:
                is_empty = False
                yield point
            if is_empty:
                raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing in repetition {finished}")
            finished += 1
