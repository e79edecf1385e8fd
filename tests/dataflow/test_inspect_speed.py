"""The measured speed of a flow, with a clock that the test moves."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.inspect import TestDataSpeed
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataExhaustedError
from tpack.utils.timer import Timer


@pytest.fixture
def slow_flow(monkeypatch):
    """A flow of seven data points that take 2 seconds each, by the clock that timers use."""
    now = [0.0]

    def wait(point):
        now[0] += 2
        return point

    monkeypatch.setattr(Timer.__init__, "__defaults__", (lambda: now[0],))
    return MapData(Counting(), wait)


@pytest.mark.parametrize(("size", "warmup", "count"), [(5, 0, 5), (3, 2, 3), (100, 0, 7), (100, 3, 4)])
def test_start_returns_and_logs_points_a_second(slow_flow, size, warmup, count, capsys):
    assert TestDataSpeed(slow_flow, size, warmup).start() == 0.5
    assert f"MapData: {count} data points, 0.5 a second" in capsys.readouterr().err


def test_start_resets_the_flow():
    inner = Counting()
    TestDataSpeed(inner, 3).start()
    assert inner.num_resets == 1


def test_flow_is_measured_once_before_its_first_pass(slow_flow, capsys):
    ds = TestDataSpeed(slow_flow, 3)
    assert [len(list(ds)) for _ in range(2)] == [7, 7]
    assert capsys.readouterr().err.count("a second") == 1


def test_flow_that_ends_in_the_warmup_raises():
    with pytest.raises(DataExhaustedError, match="Counting ended after 7 data points: use"):
        TestDataSpeed(Counting(), 3, warmup=7).start()


@pytest.mark.parametrize(("size", "warmup"), [(0, 0), (3, -1), (3, 0.5)])
def test_bad_number_is_refused(size, warmup):
    with pytest.raises(ConfigError, match="TestDataSpeed got .*: expected an integer"):
        TestDataSpeed(Counting(), size, warmup)


def test_measuring_is_no_part_of_the_data_that_was_taken():
    ds = TestDataSpeed(DataFromList([[k] for k in range(7)], shuffle=False), 3)
    ds.start()
    assert ds.ds.state_dict()["index"] == 0


def test_flow_that_goes_on_is_not_measured_again(capsys):
    def make():
        return TestDataSpeed(DataFromList([[k] for k in range(7)], shuffle=False), 3)

    ds = make()
    points = iter(ds)
    next(points)
    capsys.readouterr()
    other = make()
    other.load_state_dict(ds.state_dict())
    assert [point[0] for point in other] == [1, 2, 3, 4, 5, 6]
    assert "a second" not in capsys.readouterr().err
