"""A look at the first data points that pass."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.describe_point import describe_point
from tpack.utils import logger


class PrintData(ProxyDataFlow):
    """Log what the first data points after ``reset_state`` look like, and yield all of them unchanged."""

    def __init__(
        self, ds: DataFlow, num: int = 1, name: str | None = None, max_depth: int = 3, max_list: int = 3
    ) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num: how many data points to log.
            name: what to call the flow in the log; the type of ``ds`` unless given.
            max_depth: how deep to go into lists and dicts.
            max_list: how many elements of each to show.

        Raises:
            ConfigError: A number is less than 1.
        """
        super().__init__(ds)
        self.num = check_at_least(self, "num", num)
        self.name = type(ds).__name__ if name is None else name
        self.max_depth = check_at_least(self, "max_depth", max_depth)
        self.max_list = check_at_least(self, "max_list", max_list)
        self._num_logged = 0

    def reset_state(self) -> None:
        """Reset the wrapped flow, and begin to log again."""
        super().reset_state()
        self._num_logged = 0

    def __iter__(self) -> Iterator[Any]:
        for point in self.ds:
            if self._num_logged < self.num:
                text = describe_point(point, self.max_depth, self.max_list)
                logger.info("Data point %d of %s: %s", self._num_logged, self.name, text)
                self._num_logged += 1
            yield point
