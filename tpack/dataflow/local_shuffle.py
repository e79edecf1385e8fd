"""A shuffle buffer, for sources that can only be read in order."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, ProxyDataFlow, RNGDataFlow
from tpack.dataflow.iterator_state import StateReader, freeze_points, make_state, rng_state
from tpack.dataflow.repeat import RepeatedData
from tpack.errors import InputError
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class LocallyShuffleData(ProxyDataFlow, RNGDataFlow):
    """Yield data points in an order that is random among neighbours, without end.

    Points enter a buffer at its end and leave it at its beginning once it is full; the buffer is shuffled after every
    ``shuffle_interval`` points. Passes of the wrapped flow mix: wrap this in ``FixedSizeData`` for an end. The buffer
    is kept between iterations, of which one at a time is allowed; pickling forgets it, and a state includes it.

    Args:
        num_reuse: how often each point enters the buffer. More saves reading, and makes neighbours alike.
        shuffle_interval: the number of points of ``ds`` between shuffles; a third of the buffer by default.

    Raises:
        ConfigError: A number is less than 1.
    """

    keeps_each_point = True

    def __init__(self, ds: DataFlow, buffer_size: int, num_reuse: int = 1, shuffle_interval: int | None = None) -> None:
        super().__init__(ds)
        self.buffer_size = check_count(self, "buffer_size", buffer_size)
        self.num_reuse = check_count(self, "num_reuse", num_reuse)
        interval = max(1, self.buffer_size // 3) if shuffle_interval is None else shuffle_interval
        self.shuffle_interval = check_count(self, "shuffle_interval", interval)
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._repeated = RepeatedData(ds, -1)
        self._points: Iterator[Any] | None = None
        self._buffer: deque[Any] = deque()
        self._newest: object = None
        # How often the newest point still enters the buffer, and the number of points since it was shuffled.
        self._num_copies = 0
        self._num_taken = 0

    def __getstate__(self) -> dict[str, Any]:
        # An iterator cannot be pickled, and the buffer without it is of no use.
        return {**self.__dict__, "_points": None, "_buffer": deque(), "_num_copies": 0, "_num_taken": 0}

    def __len__(self) -> int:
        """Return the number of data points made of one pass over ``ds``, though iteration does not end there."""
        return len(self.ds) * self.num_reuse

    def reset_state(self) -> None:
        """Get a new generator, reset the wrapped flow and empty the buffer."""
        RNGDataFlow.reset_state(self)
        self._repeated.reset_state()
        self._points, self._buffer, self._newest = None, deque(), None
        self._num_copies = self._num_taken = 0

    def __iter__(self) -> Iterator[Any]:
        """Continue where the last iteration, now ended, stopped; raise DataExhaustedError for an empty flow."""
        with self._guard:
            while True:
                if self._num_copies == 0:
                    self._newest = self._take()
                    self._num_copies = self.num_reuse
                self._num_copies -= 1
                self._buffer.append(self._newest)
                if len(self._buffer) > self.buffer_size:
                    yield self._buffer.popleft()

    def state_dict(self) -> dict[str, Any]:
        """Return the buffer, the generator and the position of the wrapped flow."""
        # Each point is saved once, however often it is there.
        unique = {id(point): point for point in self._buffer}
        places = {key: place for place, key in enumerate(unique)}
        return make_state(
            self,
            ds=self._repeated.state_dict(),
            rng=rng_state(self.rng),
            points=freeze_points(self, list(unique.values())),
            order=np.array([places[id(point)] for point in self._buffer], np.int64),
            num_copies=self._num_copies,
            num_taken=self._num_taken,
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "rng", "points", "order", "num_copies", "num_taken")
        rng, buffer = saved.generator("rng"), self._make_buffer(saved.points("points"), saved["order"])
        num_copies = saved.count("num_copies", at_most=self.num_reuse - 1)
        num_taken = saved.count("num_taken", at_most=self.shuffle_interval - 1)
        self._repeated.load_state_dict(saved["ds"])
        self.rng, self._points, self._buffer = rng, None, buffer
        self._num_copies, self._num_taken = num_copies, num_taken
        # The point that entered last: the buffer is shuffled only when the next is taken.
        self._newest = buffer[-1] if buffer else None

    def end_pass(self) -> None:
        """Do nothing: there is no end, and the next iteration continues where the last one stopped."""

    def _take(self) -> object:
        """Take a point from the wrapped flow, and shuffle the buffer when due."""
        if self._points is None:
            self._points = iter(self._repeated)
        try:
            point = next(self._points)
        except BaseException:
            # An iterator that raised is at its end.
            self._points = None
            raise
        self._num_taken = (self._num_taken + 1) % self.shuffle_interval
        if self._num_taken == 0:
            points = list(self._buffer)
            self._buffer = deque(points[k] for k in self.rng.permutation(len(points)))
        return point

    def _make_buffer(self, points: list[Any], order: object) -> deque[Any]:
        """Return the points in their former order."""
        places = np.asarray(order)
        is_order = places.dtype == np.int64 and places.ndim == 1 and np.all((places >= 0) & (places < len(points)))
        if not is_order or len(places) > self.buffer_size:
            raise InputError(f"{type(self).__name__} got another buffer: expected up to {self.buffer_size} points")
        return deque(points[k] for k in places.tolist())
