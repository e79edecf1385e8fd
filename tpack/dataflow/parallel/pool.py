"""What a flow that maps data points asks of its workers, be they threads or processes."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple


class Result(NamedTuple):
    """What a worker made of a data point.

    Attributes:
        tag: what the point was submitted with.
        point: the new data point; None if the point is dropped.
        error: the exception that the function raised, to be raised when it is the point's turn.
    """

    tag: Any
    point: Any
    error: BaseException | None


class MapPool(ABC):
    """Workers that call one function with data points."""

    @abstractmethod
    def submit(self, tag: Any, point: Any) -> bool:
        """Hand a point to a worker.

        Args:
            tag: comes back with the result.
            point: the point.

        Returns:
            False if no worker has room for it now; a result is to be received first, and there is one to come.
        """

    @abstractmethod
    def receive(self) -> Result:
        """Return the next result, in whatever order they come; wait for it. There must be one to come."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""
