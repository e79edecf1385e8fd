"""Inspection of a running flow: the first data points as text, and its speed."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.iterator_state import StateReader, close_iterator, make_state
from tpack.errors import DataExhaustedError
from tpack.utils import logger
from tpack.utils.progress import get_tqdm
from tpack.utils.timer import Timer
from tpack.utils.validation import check_arguments, check_count

_MAX_TEXT = 60


@check_arguments
class PrintData(ProxyDataFlow):
    """Log the first data points after ``reset_state`` as text, and yield all of them unchanged.

    Args:
        name: the name of the flow in the log; by default the type of ``ds``.
        max_depth: the depth to which lists and dicts are shown.
        max_list: the number of elements of each that are shown.

    Raises:
        ConfigError: A number is less than 1.
    """

    keeps_each_point = True

    def __init__(
        self, ds: DataFlow, num: int = 1, name: str | None = None, max_depth: int = 3, max_list: int = 3
    ) -> None:
        super().__init__(ds)
        self.num = check_count(self, "num", num)
        self.name = type(ds).__name__ if name is None else name
        self.max_depth = check_count(self, "max_depth", max_depth)
        self.max_list = check_count(self, "max_list", max_list)
        self._num_logged = 0

    def reset_state(self) -> None:
        """Reset the wrapped flow, and log again from the first data point."""
        super().reset_state()
        self._num_logged = 0

    def __iter__(self) -> Iterator[Any]:
        for point in self.ds:
            if self._num_logged < self.num:
                text = describe_point(point, self.max_depth, self.max_list)
                logger.info("Data point %d of %s: %s", self._num_logged, self.name, text)
                self._num_logged += 1
            yield point


def describe_point(value: object, max_depth: int = 3, max_list: int = 3) -> str:
    """Return a line for each component of a data point, nested ones included: its type, shape and range.

    Lists, tuples and dicts are shown to ``max_depth``, the point itself being 1, with ``max_list`` elements of each.
    """
    return "\n".join(_lines("", value, max_depth, max_list))


def _lines(label: str, value: object, depth: int, max_list: int) -> list[str]:
    lines = [f"{label}{_summary(value)}"]
    items = list(value.items()) if isinstance(value, Mapping) else []
    if isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    if not items or depth == 0:
        return lines
    for key, held in islice(items, max_list):
        lines += ["  " + line for line in _lines(f"{key!r}: ", held, depth - 1, max_list)]
    if len(items) > max_list:
        lines.append(f"  ... {len(items) - max_list} more")
    return lines


def _summary(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, shape {value.shape}{_range_of(value)}"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + '...'}"


def _range_of(array: np.ndarray) -> str:
    """Return the range of an array of numbers, and the number of those that are not finite."""
    if array.dtype.kind not in "biuf" or array.size == 0:
        return ""
    if array.dtype.kind != "f":
        return f", {array.min()} to {array.max()}"
    finite = array[np.isfinite(array)]
    text = f", {finite.min():.4g} to {finite.max():.4g}" if finite.size else ""
    return text if finite.size == array.size else f"{text}, {array.size - finite.size} not finite"


@check_arguments
class TestDataSpeed(ProxyDataFlow):
    """Measure the speed of a flow: on ``start()``, or once before its first pass if other flows are above it.

    Args:
        size: the number of data points to time; fewer if the flow ends before.
        warmup: the number of data points taken before the clock starts.

    Raises:
        ConfigError: ``size`` is less than 1 or ``warmup`` less than 0.
    """

    # Not a test, though pytest would take it for one by its well-known name.
    __test__ = False
    keeps_each_point = True
    holds_nothing_back = True

    def __init__(self, ds: DataFlow, size: int = 5000, warmup: int = 0) -> None:
        super().__init__(ds)
        self.test_size = check_count(self, "size", size)
        self.warmup = check_count(self, "warmup", warmup, 0)
        self._is_measured = False

    def __iter__(self) -> Iterator[Any]:
        if not self._is_measured:
            self._measure()
        yield from self.ds

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, and whether it was measured."""
        return make_state(self, ds=self.ds.state_dict(), is_measured=self._is_measured)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position; it is measured again only if it was not before."""
        saved = StateReader(self, state, "ds", "is_measured")
        is_measured = saved.flag("is_measured")
        self.ds.load_state_dict(saved["ds"])
        self._is_measured = is_measured

    def start(self) -> float:
        """Reset the flow, measure it with a progress bar, log and return the speed in data points per second.

        Raises:
            DataExhaustedError: The flow ended before the clock started.
        """
        self.reset_state()
        return self._measure()

    def _measure(self) -> float:
        self._is_measured = True
        points = iter(self.ds)
        taken = sum(1 for _ in islice(points, self.warmup))
        timer = Timer()
        count = sum(1 for _ in get_tqdm(islice(points, self.test_size), total=self.test_size))
        seconds = timer.seconds()
        close_iterator(points)
        self.ds.end_pass()
        if count == 0:
            raise DataExhaustedError(f"{type(self.ds).__name__} ended after {taken} data points: use a smaller warmup")
        speed = count / max(seconds, 1e-9)
        logger.info("%s: %d data points, %.1f a second", type(self.ds).__name__, count, speed)
        return speed
