"""A DataFlow as one checked stream of data points, with the position of the steps in it.

The dataflow's state is reset once, until the stream is closed; each iteration is a new pass, but the first one may
resume an earlier run. An error of the dataflow becomes an `InputError` that names the data point. A checkpoint needs
the position after the last point that a finished step used: see `tpack.dataflow.checkpoint`.
"""

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, close_flow, flows_in, length_or_none
from tpack.dataflow.checkpoint import Position, StateLog, StateSampler, go_to
from tpack.dataflow.iterator_state import StatelessError, close_iterator
from tpack.dataflow.repeat import RepeatedData
from tpack.errors import DataExhaustedError, InputError
from tpack.input_source.spec_check import DataPointChecker
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_instance

# Needed only where a run continues.
_reshard = LazyModule("tpack.dataflow.reshard")


class DataPointStream:
    """The data points of a DataFlow, as arrays that fit a signature.

    Args:
        ds: the dataflow.
        checker: checks the data points against the signature.
        infinite: start the dataflow again at its end.
        start: the position of the first iteration; None is the beginning.
        count_used: returns the number of points of the newest iteration that finished steps have used, or raises a
            StatelessError; by default all given points count as used.
        max_under_way: the most points that are given and not used. None makes the iterating thread call ``count_used``.
    """

    def __init__(
        self,
        ds: DataFlow,
        checker: DataPointChecker,
        *,
        infinite: bool = True,
        start: Position | None = None,
        count_used: Callable[[], int] | None = None,
        max_under_way: int | None = None,
    ) -> None:
        self._ds = RepeatedData(ds, -1) if infinite else ds
        self._name = describe(ds)
        self._checker = checker
        self._was_reset = False
        self._start = start
        self._log = _PositionLog(self._ds, count_used or (lambda: self.num_given), max_under_way)

    @property
    def dtypes(self) -> list[np.dtype]:
        """The numpy dtype of each component when it is fed."""
        return self._checker.dtypes

    @property
    def num_given(self) -> int:
        """The number of given points of the newest iteration."""
        return self._log.num_given

    @property
    def size_of_pass(self) -> int | None:
        """The number of points in the first pass over the dataflow; None until it is over."""
        return self._ds.first_size if isinstance(self._ds, RepeatedData) else None

    def position(self) -> Position | None:
        """Return the position after the last used point, at first the start; raise StatelessError if unknown."""
        return self._start or self._log.position()

    def __iter__(self) -> Generator[list[np.ndarray], None, None]:
        """Yield the components of one data point after the other, not copied and not cast yet.

        Raises:
            InputError: The dataflow raised, or cannot resume at its starting position.
            DataPointError: A data point does not fit the signature.
            DataExhaustedError: The dataflow is repeated, and a pass has no data point.
        """
        index = 0
        try:
            if not self._was_reset:
                self._was_reset = True
                self._ds.reset_state()
            for data_point in self._begin():
                self._log.point_given()
                yield self._checker.check(data_point, index)
                index += 1
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self._name} raised {type(error).__name__} at data point {index}: {error}") from error

    def interrupt(self) -> None:
        """End an iteration in another thread, if a dataflow has a method ``interrupt``, as ``RemoteDataZMQ`` has."""
        for ds in flows_in(self._ds):
            if hasattr(ds, "interrupt"):
                ds.interrupt()

    def close(self) -> bool:
        """End the threads and processes of flows that have a method ``close``; return whether anything was closed.

        The next iteration starts new ones. An iteration in another thread that waits for them ends with an error.
        """
        was_reset, self._was_reset = self._was_reset, False
        return was_reset and close_flow(self._ds)

    def _begin(self) -> Iterator[Any]:
        """Start an iteration over the dataflow, and record its position."""
        points = iter(self._ds) if self._start is None else self._go_to(self._start)
        self._log.begin()
        self._start = None
        return points

    def _go_to(self, start: Position) -> Iterator[Any]:
        try:
            return go_to(self._ds, self._in_own_batches(start))
        except _NotInOwnBatches:
            logger.warning(
                f"The data start from the beginning: the batches in {self._name} had another size in the earlier run, "
                "and a flow above BatchData keeps some of them back."
            )
            return iter(self._ds)
        except InputError as error:
            raise InputError(
                f"{self._name} cannot go on where the data of the earlier run stopped: {error}. Build the same "
                "dataflow, or start the data from the beginning: AutoResumeTrainConfig(resume_data=False)"
            ) from error

    def _in_own_batches(self, start: Position) -> Position:
        """Return the starting position, where batches may have another size than in the earlier run."""
        try:
            fitting = _reshard.fit_to_batches(self._ds, start)
        except StatelessError as error:
            raise _NotInOwnBatches from error
        if fitting is not start:
            self._ds.reset_state()
        return fitting


class _NotInOwnBatches(InputError):
    """A position counts batches of another size, and does not fit the present ones."""


_WANTED = (
    "a DataFlow; as_dataflow makes one of a list, an array or a loader, and TFDatasetInput takes a tf.data.Dataset"
)


def first_point(ds: DataFlow, name: str) -> Any:
    """Return the first data point of a dataflow, and leave nothing open; its next iteration resets it.

    Raises:
        DataExhaustedError: It has none.
        InputError: It raised.
    """
    points: Iterator[Any] = iter(())
    try:
        ds.reset_state()
        points = iter(ds)
        return next(points)
    except StopIteration:
        raise DataExhaustedError(f"{name} has no data point") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name} raised {type(error).__name__} at its first data point: {error}") from error
    finally:
        close_iterator(points)
        ds.end_pass()
        close_flow(ds)


def describe(ds: DataFlow) -> str:
    """Return the name of a dataflow for messages."""
    return f"the dataflow {type(ds).__name__}"


def check_dataflow(ds: object, who: str) -> DataFlow:
    """Return ``ds`` if it is a DataFlow; raise WrongTypeError if not."""
    return check_instance(who, "ds", ds, DataFlow, _WANTED)


def samples_of(ds: DataFlow) -> tuple[int | None, int | None]:
    """Return the number of samples in a data point and in a pass; None for what is not known.

    It is known from flows that make batches, also through flows that declare ``keeps_each_point``.
    """
    batches: Any = ds
    while batches.keeps_each_point and isinstance(getattr(batches, "ds", None), DataFlow):
        batches = batches.ds
    size, length = getattr(batches, "batch_size", None), length_or_none(ds)
    if not isinstance(size, int) or length is None:
        return None, None
    # The last batch may be smaller, or what it lacks be left out.
    samples = length_or_none(getattr(batches, "ds", batches)) if length == length_or_none(batches) else None
    return size, length * size if samples is None else samples


class _PositionLog:
    """Positions of a flow while it is iterated, from the last point that a step used to the newest.

    All methods but `position` belong to the thread that iterates. For arguments see `DataPointStream`.
    """

    def __init__(self, ds: DataFlow, count_used: Callable[[], int], max_under_way: int | None = None) -> None:
        self._ds = ds
        self._count_used = count_used
        self._max_under_way = max_under_way
        self._sampler = StateSampler(ds, every=1)
        self._states = StateLog()
        self._num_given = 0

    @property
    def num_given(self) -> int:
        """The number of points that the flow has given in this iteration."""
        return self._num_given

    def begin(self) -> None:
        """Start at the present state of the flow, before the first point of an iteration."""
        self._sampler = StateSampler(self._ds, every=1)
        self._states.begin(None)
        self._num_given = 0
        self._keep_state()

    def point_given(self) -> None:
        """Count a point, right after the flow gave it."""
        self._num_given += 1
        if self._sampler.is_due():
            self._keep_state()

    def position(self) -> Position | None:
        """Return the position after the last point in a finished step, between steps; None before `begin`.

        A flow without a position, or an unknown number of used points, raises a StatelessError.
        """
        num_used = self._count_used()
        if self._sampler.reason is not None:
            raise StatelessError(self._sampler.reason)
        return self._states.after(num_used)

    def _keep_state(self) -> None:
        begin = time.monotonic()
        position = self._sampler.take()
        if position is None:
            return
        try:
            num_used = self._count_used() if self._max_under_way is None else self._num_given - self._max_under_way
        except StatelessError as error:
            self._sampler.reason = str(error)
            return
        self._states.add(self._num_given, position, num_used)
        # Counting used points takes time, too.
        self._sampler.rest(begin)
