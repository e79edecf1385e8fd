"""The log of positions alone: what it keeps, what it forgets, and what it says while nothing is known."""

import pytest

from tpack.dataflow import DataFlow, DataFromList
from tpack.dataflow import checkpoint as position
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import DataPointError
from tpack.input_source.stream import _PositionLog


class Reader:
    """Goes through a list and logs it; `used` is what steps have used of it."""

    def __init__(self, ds):
        self.used = 0
        self.log = _PositionLog(ds, lambda: self.used)
        ds.reset_state()
        self.log.begin()
        self.points = iter(ds)

    def take(self, number):
        for _ in range(number):
            next(self.points)
            self.log.point_given()

    def place(self):
        position = self.log.position()
        return position.state["index"] + position.skipped


@pytest.fixture
def reader():
    return Reader(DataFromList(list(range(1000)), shuffle=False))


def test_the_position_is_that_of_the_last_point_that_was_used(reader, rng):
    for used in range(0, 900, 9):
        reader.take(int(rng.integers(9, 10)))
        reader.used = used
        assert reader.place() == used
    assert reader.log.num_given == 900


def test_states_that_were_passed_are_forgotten(monkeypatch):
    monkeypatch.setattr(position, "_SHARE", 0)
    reader = Reader(DataFromList(list(range(1000)), shuffle=False))
    reader.take(300)
    reader.used = 299
    reader.take(1)
    assert reader.place() == 299
    reader.used = 290
    assert reader.log.position() is None


def test_a_flow_that_takes_long_to_tell_its_state_is_seldom_asked(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(position.time, "monotonic", lambda: now[0])

    class Slow(DataFromList):
        num_asked = 0

        def state_dict(self):
            now[0] += 1.0
            self.num_asked += 1
            return super().state_dict()

    ds = Slow(list(range(1000)), shuffle=False)
    reader = Reader(ds)
    for used in range(1, 1000):
        now[0] += 0.5
        reader.take(1)
        reader.used = used
    # A second each, of the 500 seconds that the points took: less than a hundredth.
    assert ds.num_asked == 1 + 499 // 100
    assert reader.place() == 999


def test_a_new_iteration_begins_the_log_anew(reader):
    reader.take(5)
    reader.used = 5
    reader.points.close()
    reader.log._ds.end_pass()
    reader.used = 0
    reader.log.begin()
    assert (reader.place(), reader.log.num_given) == (0, 0)


def test_nothing_is_known_before_the_beginning():
    assert _PositionLog(DataFromList([1]), lambda: 0).position() is None


def test_a_flow_without_positions_is_said_to_have_none():
    class Plain(DataFlow):
        def __iter__(self):
            yield from range(5)

    reader = Reader(Plain())
    reader.take(3)
    with pytest.raises(StatelessError, match="Plain cannot tell its position"):
        reader.log.position()


def test_a_flow_that_loses_its_position_is_believed(monkeypatch):
    monkeypatch.setattr(position, "_SHARE", 0)

    class Losing(DataFromList):
        def state_dict(self):
            if self._passes.value == 2:
                raise StatelessError("lost it")
            return super().state_dict()

    reader = Reader(Losing([1, 2, 3], shuffle=False))
    reader.take(1)
    assert reader.place() == 0
    reader.take(2)
    with pytest.raises(StatelessError, match="lost it"):
        reader.log.position()


def test_other_errors_of_a_flow_are_not_hidden():
    class Wrong(DataFromList):
        def state_dict(self):
            raise DataPointError("no")

    with pytest.raises(DataPointError, match="no"):
        Reader(Wrong([1]))
