"""Flows one after the other."""

from tests.helpers.flows import Counting
from tpack.dataflow.combine import ConcatData
from tpack.dataflow.sources import DataFromList


def test_points_of_one_flow_follow_those_of_the_other():
    ds = ConcatData([Counting(3), Counting(0), Counting(2)])
    assert [point[0] for point in ds] == [0, 1, 2, 0, 1]
    assert len(ds) == 5


def test_flow_that_was_left_in_the_middle_is_begun_anew_also_after_an_interruption():
    def make():
        return ConcatData([DataFromList([[k] for k in range(start, start + 3)], shuffle=False) for start in (0, 10)])

    ds = make()
    points = iter(ds)
    for _ in range(4):
        next(points)
    points.close()
    points = iter(ds)
    next(points)
    other = make()
    other.load_state_dict(ds.state_dict())
    assert [point[0] for point in other] == [1, 2, 10, 11, 12]
