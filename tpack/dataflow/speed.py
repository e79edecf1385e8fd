"""How many data points a second a flow gives."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.passes import leave
from tpack.dataflow.state import make_state, read_flag, read_state
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

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, and whether it was measured."""
        return make_state(self, ds=self.ds.state_dict(), is_measured=self._is_measured)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position; it is measured again only if it was not before.

        Raises:
            InputError: The state is of another kind of flow; nothing was changed.
        """
        inner, is_measured = read_state(self, state, "ds", "is_measured")
        is_measured = read_flag(self, "is_measured", is_measured)
        self.ds.load_state_dict(inner)
        self._is_measured = is_measured

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
        seconds = timer.seconds()
        leave(points)
        self.ds.end_pass()
        if count == 0:
            raise DataExhaustedError(f"{type(self.ds).__name__} ended after {taken} data points: none is left to time")
        speed = count / max(seconds, 1e-9)
        logger.info("%s: %d data points, %.1f a second", type(self.ds).__name__, count, speed)
        return speed
