"""How many data points a second a flow gives."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.errors import DataExhaustedError
from tpack.utils import logger
from tpack.utils.progress import get_tqdm
from tpack.utils.timer import Timer


class TestDataSpeed(ProxyDataFlow):
    """Measure the speed of a flow: on ``start()``, or once before its first pass if it is put among other flows."""

    # The name is well known; pytest must not take it for a test.
    __test__ = False

    def __init__(self, ds: DataFlow, size: int = 5000, warmup: int = 0) -> None:
        """Make the flow.

        Args:
            ds: the flow to measure.
            size: how many data points to time; fewer if the flow ends before.
            warmup: how many data points to take before the clock starts.

        Raises:
            ConfigError: ``size`` is less than 1 or ``warmup`` less than 0.
        """
        super().__init__(ds)
        self.test_size = check_at_least(self, "size", size)
        self.warmup = check_at_least(self, "warmup", warmup, 0)
        self._is_measured = False

    def __iter__(self) -> Iterator[Any]:
        if not self._is_measured:
            self._measure()
        yield from self.ds

    def start(self) -> float:
        """Reset the flow, measure it with a progress bar, log and return the speed.

        Returns:
            Data points a second.

        Raises:
            DataExhaustedError: The flow ended before the clock started.
        """
        self.reset_state()
        return self._measure()

    def _measure(self) -> float:
        """Measure a flow that is reset."""
        self._is_measured = True
        points = iter(self.ds)
        taken = sum(1 for _ in islice(points, self.warmup))
        timer = Timer()
        count = sum(1 for _ in get_tqdm(islice(points, self.test_size), total=self.test_size))
        if count == 0:
            raise DataExhaustedError(f"{type(self.ds).__name__} ended after {taken} data points: none is left to time")
        speed = count / max(timer.seconds(), 1e-9)
        logger.info("%s: %d data points, %.1f a second", type(self.ds).__name__, count, speed)
        return speed
