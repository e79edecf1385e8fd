"""Each stage of a flow is measured by a clock that the flow itself moves on."""

import pytest

from tpack.cli.data import measure_stages
from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.combine import ConcatData, JoinData, RandomChooseData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.repeat import RepeatedDataPoint
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataExhaustedError


class Clock:
    """Time that passes only where something is said to take it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def taking(self, seconds):
        def pass_time(point):
            self.now += seconds
            return point

        return pass_time


class Source(DataFlow):
    """Takes a second for each point."""

    def __init__(self, clock, count):
        self._clock, self._count = clock, count

    def __len__(self):
        return self._count

    def __iter__(self):
        for k in range(self._count):
            self._clock.now += 1.0
            yield [k]


def stages(ds, clock):
    return measure_stages(ds, 10.0, clock)


def source(clock, count=6):
    return Source(clock, count)


def test_each_stage_is_run_by_itself_from_the_source_outwards():
    clock = Clock()
    ds = BatchData(MapData(source(clock), clock.taking(2.0)), 3)
    found = stages(ds, clock)
    assert [stage.name for stage in found] == ["Source", "MapData(pass_time)", "BatchData(3 points)"]
    assert [(stage.depth, stage.inner, stage.num_workers) for stage in found] == [
        (2, (), 0),
        (1, (0,), 0),
        (0, (1,), 0),
    ]
    assert [stage.seconds for stage in found] == pytest.approx([1.0, 3.0, 9.0], rel=0.2)
    assert found[1].own_secs(found) == pytest.approx(2.0)
    assert found[2].taken == (3.0,)


@pytest.mark.parametrize(
    ("make", "taken"),
    [
        (lambda ds, other: RepeatedDataPoint(ds, 4), (0.25,)),
        (lambda ds, other: ConcatData([ds, other]), (2 / 3, 1 / 3)),
        (lambda ds, other: JoinData([ds, other]), (1.0, 1.0)),
        (lambda ds, other: RandomChooseData([ds, other]), (0.5, 0.5)),
    ],
)
def test_what_a_point_is_made_of_is_known(make, taken):
    clock = Clock()
    found = stages(make(source(clock), source(clock, 3)), clock)
    assert found[-1].taken == pytest.approx(taken)
    assert len(found) == len(taken) + 1


def test_workers_are_compared_with_one_process_and_nothing_stays_open():
    clock = Clock()
    found = stages(MultiThreadMapData(source(clock), 1, clock.taking(3.0), buffer_size=2), clock)[-1]
    assert (found.num_workers, found.workers, found.name) == (1, "1 thread", "MultiThreadMapData(pass_time, 1 thread)")
    assert found.alone_secs == pytest.approx(4.0)
    assert found.seconds == pytest.approx(4.0, rel=0.3)
    runner = stages(MultiThreadRunner(lambda: source(clock), 2, 2), clock)[-1]
    assert (runner.workers, runner.alone_secs) == ("2 threads", pytest.approx(1.0))


def test_a_flow_without_a_point_and_no_time_are_refused():
    with pytest.raises(
        DataExhaustedError, match="DataFromGenerator has no data point: expected at least one to measure"
    ):
        measure_stages(DataFromGenerator(lambda: iter(())), 1.0)
    with pytest.raises(ConfigError, match="seconds=0: expected a number greater than 0"):
        measure_stages(DataFromList([[1]]), 0)
