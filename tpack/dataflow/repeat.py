"""Repetition: a flow several times or for ever, each point several times, and passes of a fixed length."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, ProxyDataFlow, UnknownLengthError
from tpack.dataflow.iterator_state import Passes, StateReader, freeze_points, make_state
from tpack.errors import DataExhaustedError
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class RepeatedData(ProxyDataFlow):
    """Go through the wrapped flow ``num`` times in one pass, for ever if -1; refuse other numbers below 1."""

    keeps_each_point = True
    holds_nothing_back = True

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        self.num = num if num == -1 else check_count(self, "num", num)
        # The number of finished repetitions, and whether the current one has yielded a point.
        self._passes: Passes[tuple[int, bool]] = Passes((0, False))
        # The number of points in the first repetition that was read as a whole.
        self.first_size: int | None = None

    def __len__(self) -> int:
        """Return the number of points; raise UnknownLengthError for an endless flow, or one of unknown length."""
        if self.num == -1:
            raise UnknownLengthError("RepeatedData(ds, -1) never ends and has no length")
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; raise DataExhaustedError for a flow without a point, whose repetition might never end."""
        one = self._passes.begin()
        finished, has_points = one.value
        is_whole = not has_points
        while finished != self.num:
            count = 0
            for point in self.ds:
                count += 1
                if not has_points:
                    has_points = True
                    one.value = finished, True
                yield point
            if not has_points:
                raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing in repetition {finished}")
            if is_whole and self.first_size is None:
                self.first_size = count
            is_whole = True
            finished += 1
            has_points = False
            one.value = finished, False
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of finished repetitions and the position of the wrapped flow."""
        finished, has_points = self._passes.value
        return make_state(self, ds=self.ds.state_dict(), finished=finished, has_points=has_points)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "finished", "has_points")
        finished = saved.count("finished", at_most=None if self.num == -1 else self.num)
        has_points = saved.flag("has_points")
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to((finished, has_points))


@check_arguments
class RepeatedDataPoint(ProxyDataFlow):
    """Yield each data point of the wrapped flow, the same object, ``num`` times in a row; refuse less than 1.

    Its position includes the point that is being repeated.
    """

    keeps_each_point = True

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        self.num = check_count(self, "num", num)
        # How often the newest point was yielded, and that point in a list, which is empty before the first.
        self._passes: Passes[tuple[int, list[Any]]] = Passes((0, []))

    def __len__(self) -> int:
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        done, repeated = one.value
        for point in repeated:
            for count in range(done, self.num):
                one.value = count + 1, repeated
                yield point
        for point in self.ds:
            for count in range(self.num):
                one.value = count + 1, [point]
                yield point
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, the repeated point and how often it was yielded."""
        done, repeated = self._passes.value
        # A point that was yielded often enough is not needed.
        points = freeze_points(self, repeated if done < self.num else [])
        return make_state(self, ds=self.ds.state_dict(), points=points, done=done)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "points", "done")
        done, points = saved.count("done", at_most=self.num), saved.points("points", at_most=1)
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to((done, points))


@check_arguments
class FixedSizeData(ProxyDataFlow):
    """Yield a fixed number of data points in each pass, such as an epoch; the wrapped flow starts again at its end.

    With ``keep_state`` a pass continues where the last one stopped, and the flow stays open, so one pass at a time is
    allowed; else each begins the flow again. Pickling forgets the position. A size of less than 1 is refused.
    """

    keeps_each_point = True
    holds_nothing_back = True

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        super().__init__(ds)
        self._size = check_count(self, "size", size)
        self._keep_state = keep_state
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._points: Iterator[Any] | None = None
        self._passes: Passes[int] = Passes(0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_points": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position in it."""
        super().reset_state()
        self._points = None

    def __iter__(self) -> Iterator[Any]:
        with self._guard:
            one = self._passes.begin()
            try:
                while one.value < self._size:
                    point = self._next()
                    one.value += 1
                    yield point
            finally:
                if not self._keep_state:
                    self._points = None
            self._passes.end(one)
            if not self._keep_state:
                self.ds.end_pass()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken of the pass and the position of the wrapped flow."""
        index = self._passes.value
        is_open = index > 0 or self._points is not None
        return make_state(self, ds=self.ds.state_dict(), index=index, is_open=is_open)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "index", "is_open")
        index, is_open = saved.count("index", at_most=self._size), saved.flag("is_open")
        self.ds.load_state_dict(saved["ds"])
        # The pass of the wrapped flow continues, so that it may end at once without being empty.
        self._points = iter(self.ds) if is_open else None
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; with ``keep_state`` the wrapped flow stays where it is."""
        self._passes.reset()
        if not self._keep_state:
            self._points = None
            self.ds.end_pass()

    def _next(self) -> object:
        """Return the next data point; begin again at the end."""
        points, self._points = self._points, None
        # It is not kept while the flow is asked: if that raises, the next pass begins the flow again.
        for point in () if points is None else points:
            self._points = points
            return point
        points = iter(self.ds)
        for point in points:
            self._points = points
            return point
        raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing: FixedSizeData needs {self._size} points")
