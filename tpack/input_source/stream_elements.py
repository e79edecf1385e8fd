"""A stream of data points as what ``tf.data`` iterates, and the callback that owns it.

A thread of TensorFlow takes the elements, and keeps the iterator for as long as it likes. So the owner must be able to
end it, and what the dataflow has started with it. Of an error TensorFlow passes on only the text; the owner keeps it.
"""

import threading
from typing import Any

from tpack.callbacks.base import Callback
from tpack.input_source.stream import DataPointStream
from tpack.utils import logger

# How long the end of training waits for the dataflow to give the data point that it is working on.
JOIN_TIMEOUT_SECS = 5.0


class StreamElements(Callback):
    """Makes iterators over a stream, as a function without arguments; ends them with training.

    Args:
        stream: the data points.
        name: what to call the stream in messages.
    """

    _chief_only = False

    def __init__(self, stream: DataPointStream, name: str) -> None:
        self._stream = stream
        self._name = name
        self._iterators: list[_Elements] = []
        self._error: BaseException | None = None

    def __call__(self) -> "_Elements":
        """Begin an iteration from the first data point on."""
        self._iterators = [elements for elements in self._iterators if not elements.is_over]
        self._iterators.append(_Elements(self._stream, self))
        return self._iterators[-1]

    def failure(self) -> BaseException | None:
        """Return the error of the stream, if it had one."""
        return self._error

    def keep_error(self, error: BaseException) -> None:
        """Keep an error of the stream."""
        self._error = error

    def _after_train(self) -> None:
        iterators, self._iterators = self._iterators, []
        for elements in iterators:
            elements.is_over = True
        self._stream.interrupt()
        waiting = [elements for elements in iterators if not elements.close(JOIN_TIMEOUT_SECS)]
        self._stream.close()
        # One that waited for workers waits no more.
        if not all([elements.close(JOIN_TIMEOUT_SECS) for elements in waiting]):
            logger.warning(f"A thread of TensorFlow still waits for {self._name} and is left alone.")


class _Elements:
    """One iteration, which another thread may end."""

    def __init__(self, stream: DataPointStream, owner: StreamElements) -> None:
        self._dtypes = stream.dtypes
        self._points = iter(stream)
        self._owner = owner
        self._lock = threading.Lock()
        self.is_over = False

    def __iter__(self) -> "_Elements":
        return self

    def __next__(self) -> tuple[Any, ...]:
        with self._lock:
            try:
                if self.is_over:
                    raise StopIteration
                point = next(self._points)
            except StopIteration:
                self.is_over = True
                raise
            except Exception as error:
                # What comes of ending the dataflow is no error.
                if self.is_over:
                    raise StopIteration from error
                self.is_over = True
                self._owner.keep_error(error)
                raise
        return tuple(array.astype(dtype, copy=False) for array, dtype in zip(point, self._dtypes, strict=True))

    def close(self, timeout_secs: float) -> bool:
        """Close the iteration over the stream; return whether it was no more waited for within some time."""
        if not self._lock.acquire(timeout=timeout_secs):
            return False
        try:
            self._points.close()
        finally:
            self._lock.release()
        return True
