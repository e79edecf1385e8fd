"""Data points kept in memory after the first pass."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, ProxyDataFlow, RNGDataFlow
from tpack.dataflow.iterator_state import Pass, Passes, StatelessError, StateReader, close_iterator, make_state, skip
from tpack.errors import InputError
from tpack.utils.validation import check_arguments


@check_arguments
class CacheData(ProxyDataFlow, RNGDataFlow):
    """Keep all data points of the first whole pass in memory, and yield the same objects in later passes.

    An unfinished pass keeps nothing. (In tensorpack its points counted as the whole data.) A position does not hold the
    points: the wrapped flow returns to where the filling pass began, and the memory is filled again before the first
    point is yielded. With ``shuffle`` each pass after the first has a new order.
    """

    keeps_each_point = True

    def __init__(self, ds: DataFlow, shuffle: bool = False) -> None:
        super().__init__(ds)
        self.shuffle = shuffle
        self._passes: Passes[int] = Passes(0)
        # The points in memory; whether those of before an interruption must be read again; the position of ``ds``
        # from which they are read, None if it has none.
        self._points: list[Any] | None = None
        self._must_refill = False
        self._filled_from: dict[str, Any] | None = None

    def reset_state(self) -> None:
        """Get a new generator, reset the wrapped flow and forget the points."""
        RNGDataFlow.reset_state(self)
        ProxyDataFlow.reset_state(self)
        self._points, self._must_refill, self._filled_from = None, False, None

    def __iter__(self) -> Iterator[Any]:
        is_resumed = self._passes.is_sent
        one = self._passes.begin(self.rng if self.shuffle else None)
        if self._must_refill:
            self._refill()
        if self._points is None:
            yield from self._fill(one, is_resumed=is_resumed)
        else:
            points = self._points
            for index in self._draw_order()[one.value :].tolist():
                one.value += 1
                yield points[index]
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return where memory is filled from, whether it is full, and the points taken; refuse without a position."""
        is_filled = self._points is not None or self._must_refill
        is_begun = is_filled or self._passes.has_newest
        start = self._filled_from if is_begun else self.ds.state_dict()
        if start is None:
            raise StatelessError(f"CacheData has no position, since the {type(self.ds).__name__} in it has none")
        rng = self._passes.drawn_from(self.rng) if self.shuffle else None
        return make_state(self, is_filled=is_filled, index=self._passes.value, start=copy.deepcopy(start), rng=rng)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position; the next pass fills the memory again. Both may raise InputError: data may lack."""
        saved = StateReader(self, state, "start", "is_filled", "index", "rng")
        is_filled, index = saved.flag("is_filled"), saved.count("index")
        rng = saved.generator_of_order("rng", shuffle=self.shuffle)
        self.ds.load_state_dict(saved["start"])
        if rng is not None:
            self.rng = rng
        self._points, self._filled_from, self._must_refill = None, copy.deepcopy(saved["start"]), is_filled
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        is_sent = self._passes.is_sent
        # The run that is continued has drawn and taken points for this pass, which is done again.
        if is_sent and self._must_refill:
            self._refill()
            self._draw_order()
        elif is_sent:
            points = iter(self.ds)
            skip(self, points, self._passes.value)
            close_iterator(points)
        if self._points is None and not self._must_refill:
            self.ds.end_pass()
        self._passes.reset()

    def _fill(self, one: Pass[int], *, is_resumed: bool) -> Iterator[Any]:
        """Go through the wrapped flow, keep its points, and yield those that the pass has not yielded."""
        if not is_resumed:
            self.ds.end_pass()
        try:
            self._filled_from = self.ds.state_dict()
        except StatelessError:
            self._filled_from = None
        points: list[Any] = []
        for point in self.ds:
            points.append(point)
            if len(points) > one.value:
                one.value += 1
                yield point
        if len(points) < one.value:
            raise InputError(
                f"CacheData got a position after {one.value} data points, and its {type(self.ds).__name__} ended after "
                f"{len(points)}: the data has changed"
            )
        self._points = points

    def _refill(self) -> None:
        """Read again what was in memory before the interruption."""
        for _ in self._fill(Pass(0), is_resumed=True):
            continue
        self._must_refill = False

    def _draw_order(self) -> np.ndarray:
        order = np.arange(len(self._points or ()))
        if self.shuffle:
            self.rng.shuffle(order)
        return order
