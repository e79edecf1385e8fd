"""A stream resets its dataflow once, begins again at each pass, and explains what goes wrong."""

import numpy as np
import psutil
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.dataflow import (
    BatchData,
    DataFlow,
    DataFlowTerminated,
    DataFromList,
    JoinData,
    LocallyShuffleData,
    MapData,
    ProxyDataFlow,
)
from tpack.dataflow.parallel import MultiProcessRunner, MultiThreadRunner
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, check_dataflow, describe, samples_of

SPECS = [tf.TensorSpec([], tf.int32, "x")]


class Counting(DataFlow):
    """Gives `items`, raising those that are exceptions, and counts its resets."""

    def __init__(self, items):
        self.items = items
        self.num_resets = 0

    def reset_state(self):
        self.num_resets += 1

    def __iter__(self):
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield [item]


def stream(items, **options):
    ds = Counting(items)
    return ds, DataPointStream(ds, DataPointChecker(SPECS, describe(ds)), **options)


def take(points, number):
    return [int(next(points)[0]) for _ in range(number)]


def test_a_finite_stream_is_one_pass():
    _, points = stream([1, 2, 3], infinite=False)
    assert [int(point[0]) for point in points] == [1, 2, 3]
    assert points.dtypes == ["int32"]


def test_an_infinite_stream_repeats_and_each_iteration_begins_anew():
    ds, points = stream([1, 2, 3])
    assert take(iter(points), 5) == [1, 2, 3, 1, 2]
    assert take(iter(points), 2) == [1, 2]
    assert ds.num_resets == 1


def test_nothing_happens_before_the_first_data_point_is_asked_for():
    ds, points = stream([1])
    iter(points)
    assert ds.num_resets == 0


def test_an_error_of_the_dataflow_is_chained_and_says_where():
    _, points = stream([1, 2, KeyError("gone")])
    iterator = iter(points)
    take(iterator, 2)
    with pytest.raises(InputError, match="the dataflow Counting raised KeyError at data point 2: 'gone'") as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_input_error_of_the_dataflow_stays_what_it_is():
    _, points = stream([DataFlowTerminated("the server is gone")])
    with pytest.raises(DataFlowTerminated, match="the server is gone"):
        next(iter(points))


def test_a_bad_data_point_is_named():
    _, points = stream([1, 2, 2.5])
    iterator = iter(points)
    take(iterator, 2)
    with pytest.raises(DataPointError, match="data point 2 of the dataflow Counting"):
        next(iterator)


def test_an_infinite_stream_without_data_is_an_error():
    _, points = stream([])
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing"):
        next(iter(points))


def test_interrupt_reaches_flows_that_are_wrapped():
    class Waiting(Counting):
        is_interrupted = False

        def interrupt(self):
            self.is_interrupted = True

    waiting = [Waiting([]) for _ in range(3)]
    joined = JoinData([MapData(waiting[0], str), waiting[1], DataFromList([])])
    DataPointStream(joined, DataPointChecker(SPECS, "")).interrupt()
    DataPointStream(waiting[2], DataPointChecker(SPECS, ""), infinite=False).interrupt()
    assert all(ds.is_interrupted for ds in waiting)


def test_close_reaches_flows_that_are_wrapped_and_the_next_iteration_resets_them():
    class Closing(Counting):
        num_closed = 0

        def close(self):
            self.num_closed += 1

    closing = [Closing([k]) for k in range(2)]
    points = DataPointStream(
        JoinData([MapData(closing[0], lambda point: point), closing[1]]),
        DataPointChecker([*SPECS, tf.TensorSpec([], tf.int32, "y")], ""),
    )
    points.close()
    assert [ds.num_closed for ds in closing] == [0, 0]
    for number in (1, 2):
        iterator = iter(points)
        assert [int(part) for part in next(iterator)] == [0, 1]
        iterator.close()
        for _ in range(2):
            points.close()
        assert [(ds.num_resets, ds.num_closed) for ds in closing] == [(number, number)] * 2


def test_close_reaches_flows_in_threads():
    runners = [MultiProcessRunner(DataFromList([[k]]), 2, 1) for k in range(2)]
    flows = iter(runners)
    points = DataPointStream(MultiThreadRunner(lambda: next(flows), 2, 2), DataPointChecker(SPECS, ""))
    before = psutil.Process().children()
    next(iter(points))
    started = [child for child in psutil.Process().children() if child not in before]
    assert len(started) == 2
    points.close()
    assert psutil.Process().children() == before


def batches_of(size, *, start=None, above=lambda ds: ds):
    source = DataFromList([[np.int32(k)] for k in range(24)], shuffle=False)
    checker = DataPointChecker([tf.TensorSpec([None], tf.int32, "x")], "the data")
    return DataPointStream(above(BatchData(source, size)), checker, start=start)


def test_it_goes_on_at_the_same_point_in_batches_of_another_size():
    former = iter(first := batches_of(4))
    taken = [int(k) for _ in range(3) for k in next(former)[0]]
    position = first.position()
    # Its state is from the beginning, and three batches of four were taken since.
    assert position.skipped > 0
    second = batches_of(6, start=position)
    taken += [int(k) for _, batch in zip(range(2), iter(second), strict=False) for k in batch[0]]
    assert taken == list(range(24))


def test_where_batches_of_another_size_are_kept_back_the_data_begin_anew():
    first = batches_of(4, above=lambda ds: LocallyShuffleData(ds, 2))
    next(iter(first))
    second = batches_of(6, start=first.position(), above=lambda ds: LocallyShuffleData(ds, 2))
    with captured_log() as lines:
        batches = [[int(k) for k in batch[0]] for _, batch in zip(range(8), iter(second), strict=False)]
    # One or two of them wait, also from one pass to the next.
    assert all(batch in [list(range(k, k + 6)) for k in range(0, 24, 6)] for batch in batches)
    assert batches[0][0] <= 12
    assert [line for line in lines if "start from the beginning: the batches in the dataflow LocallyShuffle" in line]


def test_check_dataflow():
    ds = DataFromList([])
    assert check_dataflow(ds, "me") is ds
    with pytest.raises(ConfigError, match="me got ds=.*: expected a DataFlow; as_dataflow makes one of a list"):
        check_dataflow([], "me")


class Unchanged(ProxyDataFlow):
    """A flow of a user that yields the points of another one, and declares it."""

    keeps_each_point = True


def test_samples_are_known_through_a_flow_that_declares_to_keep_each_point():
    batches = BatchData(DataFromList([[k] for k in range(7)]), 3, remainder=True)
    assert samples_of(Unchanged(Unchanged(batches))) == samples_of(batches) == (3, 7)
    assert samples_of(MapData(batches, list)) == samples_of(ProxyDataFlow(batches)) == (None, None)
