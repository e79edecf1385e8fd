"""Input sources on a DataFlow that record which data points were used, and resume after them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.dataflow.base import DataFlow
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.iterator_state import StatelessError, StateReader, make_state
from tpack.dataflow.repeat import RepeatedData
from tpack.errors import InputError
from tpack.input_source.base import InputSource
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, describe
from tpack.utils.lazy import LazyModule

# Needed only where an earlier run had another number of workers.
_reshard = LazyModule("tpack.dataflow.reshard")


class ResumableInput(InputSource):
    """Source with one stream of data points, whose position is after the last one that a finished step used.

    A subclass makes the stream by `_open_stream` in its `_setup`.
    """

    _start: Position | None = None
    _stream: DataPointStream | None = None
    _num_prefetched = 0
    _is_repeated = True

    @property
    def size_of_pass(self) -> int | None:
        """The number of points in the first pass over the data; None until it was read to the end."""
        return None if self._stream is None else self._stream.size_of_pass

    def data_state(self) -> dict[str, Any] | None:
        """Return the position after the last data point that a finished step used; raise StatelessError without one.

        No step may be running. It is None before the first iteration.
        """
        position = self._start if self._stream is None else self._stream.position()
        if position is None:
            return None
        return make_state(position, state=position.state, skipped=position.skipped)

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Start the data at a position; called before `setup`, else or with an invalid state it raises InputError.

        A dataflow of another structure raises when it is started, before the first step.
        """
        self._start = self._position_in(state)

    def deal_data_states(self, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
        """Start one worker's data where all former workers, by their ranks, stopped; called before `setup`.

        The same number of workers resume each from its own position; otherwise `ShardData` reshards the rest.

        Raises:
            StatelessError: The dataflow cannot be resharded.
            InputError: A state is invalid, the dataflow is another one, or the source was set up before.
        """
        positions = [self._position_in(state) for state in states]
        if len(positions) == size:
            self._start = positions[rank]
            return
        if self.dataflow is None:
            raise StatelessError(f"the data of {self} are not a dataflow, and cannot be dealt out anew")
        # Repeated as in the stream.
        ds = RepeatedData(self.dataflow, -1) if self._is_repeated else self.dataflow
        self._start = _reshard.reshard(ds, positions, rank, size)

    def _position_in(self, state: dict[str, Any]) -> Position:
        if self.setup_done():
            raise InputError(f"{self} was set up before: load the state of its data first")
        start = Position({})
        saved = StateReader(start, state, "state", "skipped")
        return replace(start, state=saved["state"], skipped=saved.count("skipped"))

    def mark_prefetched(self, num_times: int) -> None:
        """Count data, taken by a tower ``num_times`` last, as prefetched: they wait between the source and the step."""
        self._num_prefetched += num_times

    def _open_stream(
        self, ds: DataFlow, specs: Sequence[tf.TensorSpec], *, infinite: bool = True, max_under_way: int | None = None
    ) -> DataPointStream:
        """Return the stream of the data points of ``ds``, at its starting position."""
        self._stream = DataPointStream(
            ds,
            DataPointChecker(specs, describe(ds)),
            infinite=infinite,
            start=self._start,
            count_used=lambda: max(0, self._num_used()),
            max_under_way=max_under_way,
        )
        return self._stream

    def _num_used(self) -> int:
        """Return the number of newest data points in finished steps; raise StatelessError if it is unknown."""
        # Sources without a buffer have used what they took.
        return 0 if self._stream is None else self._stream.num_given
