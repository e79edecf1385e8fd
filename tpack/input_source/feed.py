"""Data that are fed with each step, in the thread that runs the step: for inference on small data, and debugging.

Producing a data point and computing a step take turns; `QueueInput` is for training.
"""

import time
from collections.abc import Generator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.base import DataFlow
from tpack.errors import DataExhaustedError
from tpack.input_source.dequeue import DataWaitReport
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.stream import DataPointStream, samples_of
from tpack.utils.validation import check_arguments


@check_arguments
class FeedInput(ResumableInput):
    """Source that feeds the data points of a DataFlow, one for each tower at each step.

    In tensorpack all towers get the same data point; here each has its own, as with every other source.

    Args:
        ds: the dataflow.
        infinite: start again at its end. Otherwise the end is an error.

    Raises:
        ConfigError: `ds` is not a DataFlow.
        DataExhaustedError: In a step, when the data ended and are not infinite.
        InputError: In a step, when the dataflow raised.
        DataPointError: In a step, when a data point does not fit the signature.
    """

    def __init__(self, ds: DataFlow, infinite: bool = True) -> None:
        self.ds = ds
        self._infinite = self._is_repeated = infinite
        self._specs: Sequence[tf.TensorSpec] = ()
        self._callback: _FeedCallback

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        self._specs = signature
        self._callback = _FeedCallback(self._open_stream(self.ds, signature, infinite=self._infinite))

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        with self.cached_name_scope():
            placeholders = [tf.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in self._specs]
        self._callback.towers.append(placeholders)
        return placeholders

    def _get_callbacks(self) -> Sequence[Callback]:
        return [self._callback, DataWaitReport(str(self), lambda: self._callback.waited)]

    def _reset_state(self) -> None:
        self._callback.restart()

    @property
    def dataflow(self) -> DataFlow:
        """The dataflow."""
        return self.ds

    def samples(self) -> tuple[int | None, int | None]:
        """Return the samples of the dataflow's batches, if it makes batches."""
        return samples_of(self.ds)

    def _size(self) -> int:
        return len(self.ds)

    def _num_used(self) -> int:
        return self._callback.num_used


class _FeedCallback(Callback):
    """Feeds one data point of a stream to each tower with the step."""

    _chief_only = False

    def __init__(self, stream: DataPointStream) -> None:
        self.towers: list[list[tf.Tensor]] = []
        self._stream = stream
        self._points: Generator[list[np.ndarray], None, None] | None = None
        self._num_taken = 0
        # An interrupted step may have taken data that no run has used.
        self.num_used = 0
        self.waited = 0.0

    def restart(self) -> None:
        """Return to the first data point."""
        if self._points is not None:
            self._points.close()
        self._points = None

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        begin = time.perf_counter()
        feeds = {}
        for placeholders in self.towers:
            for placeholder, array, dtype in zip(placeholders, self._take(), self._stream.dtypes, strict=True):
                feeds[placeholder] = array.astype(dtype, copy=False)
        self.waited += time.perf_counter() - begin
        return tf.train.SessionRunArgs(fetches=[], feed_dict=feeds)

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self.num_used = self._num_taken

    def _take(self) -> list[np.ndarray]:
        if self._points is None:
            self._points = iter(self._stream)
            self._num_taken = self.num_used = 0
        for point in self._points:
            self._num_taken += 1
            return point
        raise DataExhaustedError(f"the data of FeedInput ended after {self._num_taken} data points: a step needs more")

    def _after_train(self) -> None:
        self.restart()
        self._stream.close()

    def __str__(self) -> str:
        return "FeedInput"
