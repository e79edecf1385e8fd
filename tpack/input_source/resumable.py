"""Input sources on a DataFlow that tell which data points were used, and go on after those."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.dataflow.base import DataFlow
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.iterator_state import StatelessError, StateReader, make_state
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.reshard import reshard
from tpack.errors import InputError
from tpack.input_source.base import InputSource
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, describe


class ResumableInput(InputSource):
    """A source with one stream of data points, whose position is that of the last point that a finished step used.

    A subclass makes the stream by `_open_stream` in its `_setup`.
    """

    _start: Position | None = None
    _stream: DataPointStream | None = None
    _num_prefetched = 0
    _is_repeated = True

    def data_state(self) -> dict[str, Any] | None:
        """Return the position right after the last data point that a finished step used; no step may be running.

        Returns:
            What `tpack.utils.serialize` takes; None as long as the data were not begun.

        Raises:
            StatelessError: The dataflow cannot tell its position, or the source does not know what was used.
        """
        position = self._start if self._stream is None else self._stream.position()
        if position is None:
            return None
        return make_state(position, state=position.state, skipped=position.skipped)

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Let the data begin at a position; to be called before `setup`.

        A dataflow of another structure is found out when it is begun, before the first step.

        Args:
            state: what `data_state` returned.

        Raises:
            InputError: It is no such state, or the source was set up before.
        """
        self._start = self._position_in(state)

    def deal_data_states(self, states: Sequence[dict[str, Any]], rank: int, size: int) -> None:
        """Let the data begin where former workers stopped, one of new ones here; to be called before `setup`.

        As many workers as there were go on each from its own position; else `ShardData` deals the rest out anew.

        Args:
            states: what `data_state` returned in each of them, by rank.
            rank: the number of this worker.
            size: how many there are now.

        Raises:
            StatelessError: The dataflow cannot be dealt out anew.
            InputError: These are no such states, the dataflow is another one, or the source was set up before.
        """
        positions = [self._position_in(state) for state in states]
        if len(positions) == size:
            self._start = positions[rank]
            return
        if self.dataflow is None:
            raise StatelessError(f"the data of {self} are no dataflow, and cannot be dealt out anew")
        # As the stream iterates it.
        ds = RepeatedData(self.dataflow, -1) if self._is_repeated else self.dataflow
        self._start = reshard(ds, positions, rank, size)

    def _position_in(self, state: dict[str, Any]) -> Position:
        if self.setup_done():
            raise InputError(f"{self} was set up before: load the state of its data first")
        start = Position({})
        saved = StateReader(start, state, "state", "skipped")
        return replace(start, state=saved["state"], skipped=saved.count("skipped"))

    def mark_prefetched(self, num_times: int) -> None:
        """Count the last data that were taken out as prefetched: they wait somewhere between here and the step.

        Args:
            num_times: how many times a tower's data were taken out.
        """
        self._num_prefetched += num_times

    def _open_stream(
        self, ds: DataFlow, specs: Sequence[tf.TensorSpec], *, infinite: bool = True, max_under_way: int | None = None
    ) -> DataPointStream:
        """Return the stream of the data points of ``ds``, which begins where it is to begin.

        Args:
            ds: the dataflow.
            specs: what a data point is.
            infinite: begin the dataflow again when it ends.
            max_under_way: see `DataPointStream`.
        """
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
        """Return how many data points of the newest iteration over the stream the finished steps have used.

        Raises:
            StatelessError: This is not known.
        """
        # Who keeps no data of its own has used what it took.
        return 0 if self._stream is None else self._stream.num_given
