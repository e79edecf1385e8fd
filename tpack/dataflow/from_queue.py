"""Data points from a queue that somebody else fills."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError


class DataFromQueue(DataFlow):
    """Yield what is got from a queue, without end.

    What was got is gone, so it has no position and no length. A pass waits for as long as the queue is empty.
    """

    def __init__(self, queue: Any) -> None:
        """Make the flow.

        Args:
            queue: a ``queue.Queue``, a ``multiprocessing.Queue`` or anything else with ``get()``.

        Raises:
            ConfigError: It has no ``get()``.
        """
        if not callable(getattr(queue, "get", None)):
            raise ConfigError(f"DataFromQueue got a {type(queue).__name__}: wanted a queue, with a method get()")
        self.queue = queue

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.queue.get()
