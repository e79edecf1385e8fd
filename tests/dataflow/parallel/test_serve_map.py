"""What a worker does that maps."""

import weakref

import numpy as np
import pytest

from tests.helpers.served import served
from tpack.dataflow.parallel.serve_map import serve_batches, serve_map
from tpack.dataflow.parallel.wire import VIEW_BYTES, Kind


def fail_at_two(point):
    if point[0] == 2:
        raise OSError("gone")
    return point


def answers(found):
    """Return what points were answered with, an exception as its kind."""
    return [point if kind in (Kind.POINT, Kind.PACK, Kind.DROPPED) else kind for kind, point in found]


def test_each_point_is_answered_in_its_turn():
    with served(serve_map, lambda point: [point[0] * 10] if point[0] % 3 else None) as owner:
        owner.submit(*([k] for k in range(7)))
        assert answers(owner.receive(7)) == [None, [10], [20], None, [40], [50], None]


def test_exception_is_an_answer_and_the_next_point_is_mapped():
    with served(serve_map, fail_at_two) as owner:
        owner.submit(*([k] for k in range(5)))
        found = owner.receive(5)
        assert answers(found) == [[0], [1], Kind.ERROR, [3], [4]]
        assert found[2][1].text == "OSError: gone"


def test_result_that_cannot_be_pickled_is_an_exception():
    with served(serve_map, lambda point: [iter([])] if point[0] == 1 else [(x for x in ())]) as owner:
        owner.submit([0], [1])
        (kind, failure), (_, point) = owner.receive(2)
        assert kind == Kind.ERROR
        assert "cannot be sent to another process: TypeError: cannot pickle 'generator' object" in failure.text
        assert list(point[0]) == []


@pytest.mark.parametrize("fails", [False, True])
def test_no_point_is_kept_while_waiting_for_the_next(fails):
    seen = []

    def note(point):
        seen.append(weakref.ref(point[0]))
        if fails:
            raise OSError("gone")
        return [len(seen)]

    with served(serve_map, note) as owner:
        for _ in range(3):
            owner.submit([np.zeros(VIEW_BYTES)])
            owner.receive(1)
        owner.submit([np.zeros(VIEW_BYTES)])
        owner.receive(1)
        assert [ref() for ref in seen[:-1]] == [None] * 3


def batches_of(found):
    return [None if point is None else [part.tolist() for part in point] for _, point in found]


def test_lists_are_answered_with_batches():
    with served(serve_batches, lambda point: [np.full(2, point[0]), point[0]], 3) as owner:
        owner.submit([[0], [1], [2]], [[3], [4], [5]])
        found = owner.receive(2)
        assert batches_of(found) == [[[[k, k] for k in part], part] for part in ([0, 1, 2], [3, 4, 5])]
        assert found[0][1][1].dtype == np.int32


def test_batches_have_their_size_when_points_are_dropped():
    with served(serve_batches, lambda point: point if point[0] % 4 else None, 2) as owner:
        owner.submit([[0], [1]], [[2], [3]], [[4], [5]], [[6], [7]], [[8], [9]])
        assert batches_of(owner.receive(5)) == [None, [[1, 2]], [[3, 5]], [[6, 7]], None]


def test_exception_costs_the_batch_it_happens_in():
    with served(serve_batches, fail_at_two, 2) as owner:
        owner.submit([[0], [1]], [[2], [3]], [[4], [5]])
        found = owner.receive(3)
        assert [kind for kind, _ in found] == [Kind.POINT, Kind.ERROR, Kind.POINT]
        assert batches_of(found[2:]) == [[[4, 5]]]


def test_points_that_do_not_go_together_are_an_exception():
    with served(serve_batches, lambda point: [np.zeros(point[0])], 2) as owner:
        owner.submit([[0], [1]], [[2], [2]])
        (kind, failure), (_, batch) = owner.receive(2)
        assert kind == Kind.ERROR
        assert "a batch wants them alike" in failure.text
        assert batch[0].shape == (2, 2)
