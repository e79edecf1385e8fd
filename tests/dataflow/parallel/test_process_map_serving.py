"""What a worker does that maps."""

import weakref

import numpy as np
import pytest

from tests.helpers.served import served
from tpack.dataflow.parallel.process_map import serve_batches, serve_map
from tpack.dataflow.parallel.slots import VIEW_BYTES, Record


def fail_at_two(point):
    if point[0] == 2:
        raise OSError("gone")
    return point


def answers(found):
    """Return what points were answered with, an exception as its kind."""
    return [point if kind in (Record.POINT, Record.PACK, Record.DROPPED) else kind for kind, point in found]


def test_each_point_is_answered_in_its_turn():
    with served(serve_map, lambda point: [point[0] * 10] if point[0] % 3 else None) as owner:
        owner.submit(*([k] for k in range(7)))
        assert answers(owner.receive(7)) == [None, [10], [20], None, [40], [50], None]


def test_exception_is_an_answer_and_the_next_point_is_mapped():
    with served(serve_map, fail_at_two) as owner:
        owner.submit(*([k] for k in range(5)))
        found = owner.receive(5)
        assert answers(found) == [[0], [1], Record.ERROR, [3], [4]]
        assert found[2][1].text == "OSError: gone"


def test_result_that_cannot_be_pickled_is_an_exception():
    with served(serve_map, lambda point: [iter([])] if point[0] == 1 else [(x for x in ())]) as owner:
        owner.submit([0], [1])
        (kind, failure), (_, point) = owner.receive(2)
        assert kind == Record.ERROR
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
        assert [kind for kind, _ in found] == [Record.POINT, Record.ERROR, Record.POINT]
        assert batches_of(found[2:]) == [[[4, 5]]]


def test_points_that_do_not_go_together_are_an_exception():
    with served(serve_batches, lambda point: [np.zeros(point[0])], 2) as owner:
        owner.submit([[0], [1]], [[2], [2]])
        (kind, failure), (_, batch) = owner.receive(2)
        assert kind == Record.ERROR
        assert "like data point 0; or use use_list=True" in failure.text
        assert batch[0].shape == (2, 2)


LARGE_BYTES = 2 * VIEW_BYTES


def large(value):
    return np.full(LARGE_BYTES, value, np.uint8)


def mapped(point):
    """Return a point with a large array; drop 4, and fail at 2."""
    if point[0] == 2:
        raise OSError("gone")
    return [point[0], large(point[0])] if point[0] != 4 else None


def mapped_small(point):
    """Do as ``mapped``, without the array."""
    answer = mapped(point)
    return answer and answer[:1]


def numbers_of(found):
    """Return the numbers in batches of such points, and what else was answered."""
    contents = []
    for kind, content in found:
        if kind == Record.POINT:
            numbers, *arrays = content
            for array in arrays:
                np.testing.assert_array_equal(array, np.repeat(numbers[:, None], LARGE_BYTES, 1))
            content = numbers.tolist()
        contents.append(kind if kind == Record.ERROR else content)
    return contents


@pytest.mark.parametrize(
    ("lists", "wanted"),
    [
        ([[0, 1, 3], [5, 6, 7]], [[0, 1, 3], [5, 6, 7]]),
        ([[0, 4, 1], [3, 5, 6], [4, 4, 7], [8, 9, 4]], [None, [0, 1, 3], [5, 6, 7], None]),
        ([[0, 1, 2], [3, 5, 6]], [Record.ERROR, [3, 5, 6]]),
        ([[0, 4, 1], [3, 2, 5], [6, 7, 8]], [None, Record.ERROR, [6, 7, 8]]),
        ([[0, 4, 1], [3, 5, 2], [6, 7, 8]], [None, Record.ERROR, [6, 7, 8]]),
        ([[0, 4, 1], [3, 5, 6], [7, 2, 8], [9, 10, 11]], [None, [0, 1, 3], Record.ERROR, [9, 10, 11]]),
        ([[4, 4, 4], [2, 2, 2], [0, 1, 3]], [None, Record.ERROR, [0, 1, 3]]),
    ],
)
@pytest.mark.parametrize("func", [mapped, mapped_small])
def test_batch_in_which_an_exception_happens_leaves_nothing_to_the_next(func, lists, wanted):
    with served(serve_batches, func, 3) as owner:
        for _ in range(2):
            owner.submit(*([[number] for number in numbers] for numbers in lists))
            assert numbers_of(owner.receive(len(lists))) == wanted
            owner.submit([[2], [2], [2]])
            assert numbers_of(owner.receive(1)) == [Record.ERROR]


def test_exceptions_cost_no_memory_to_send_batches_in():
    def func(point):
        return [large(0)[point[0] :], "more"][: 1 + (point[0] == 2)]

    failures = {
        (0, 1): "like data point 0; or use use_list=True",
        (1, 2): "data point 1 has 2 components: expected 1, like data point 0",
    }
    with served(serve_batches, func, 2, capacity=1) as owner:
        for _ in range(20):
            for numbers, message in failures.items():
                owner.submit([[number] for number in numbers])
                kind, failure = owner.receive(1)[0]
                assert kind == Record.ERROR
                assert message in failure.text
        owner.submit([[1], [1]])
        assert owner.receive(1)[0][1][0].shape == (2, LARGE_BYTES - 1)


def test_large_arrays_are_not_kept_until_their_batch_is_whole():
    seen = []

    def note(point):
        array = large(point[0])
        alive = [ref() is not None for ref in seen]
        seen.append(weakref.ref(array))
        return [array, sum(alive[:-1])]

    with served(serve_batches, note, 4) as owner:
        for _ in range(3):
            owner.submit([[0], [1], [2], [3]])
            assert owner.receive(1)[0][1][1].tolist() == [0] * 4


def test_batches_that_are_kept_stay_as_they_are():
    with served(serve_batches, lambda point: [large(point[0])], 2, capacity=2) as owner:
        kept = []
        for k in range(30):
            owner.submit([[k], [k + 100]])
            kept += [batch[0][:, ::1000] for _, batch in owner.receive(1)]
        for k, batch in enumerate(kept):
            assert [set(row.tolist()) for row in batch] == [{k}, {k + 100}]
