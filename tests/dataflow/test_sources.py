"""Flows over a list, a generator function and a queue."""

import pickle
import queue
from itertools import islice

import numpy as np
import pytest

from tests.helpers.flows import generate
from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.sources import DataFromGenerator, DataFromList, DataFromQueue
from tpack.errors import ConfigError, DataExhaustedError, InputError


def test_order_is_kept_without_shuffling_and_without_reset():
    points = [[k] for k in range(5)]
    assert list(DataFromList(points, shuffle=False)) == points


def test_shuffled_passes_are_permutations_that_differ():
    ds = DataFromList(range(50))
    ds.reset_state()
    first, second = list(ds), list(ds)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_shuffling_wants_a_reset():
    with pytest.raises(InputError, match="DataFromList needs random numbers"):
        list(DataFromList([1, 2]))


def test_array_gives_its_rows():
    rows = list(DataFromList(np.arange(6).reshape(3, 2), shuffle=False))
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("lst", [iter([1]), {1, 2}, 3])
def test_what_is_no_sequence_is_refused(lst):
    with pytest.raises(ConfigError, match="DataFromList got lst=.*: expected a list"):
        DataFromList(lst)


def test_function_is_called_for_each_pass():
    ds = DataFromGenerator(generate)
    assert list(ds) == list(ds) == list(generate())


def test_generator_itself_is_good_for_one_pass():
    ds = DataFromGenerator(generate())
    assert len(list(ds)) == 7
    with pytest.raises(DataExhaustedError, match="with a generator function"):
        list(ds)


def test_length_is_unknown():
    with pytest.raises(UnknownLengthError, match="DataFromGenerator does not know its length"):
        len(DataFromGenerator([1]))


def test_what_is_no_function_is_refused():
    with pytest.raises(ConfigError, match="got gen=3: expected a function or an iterable"):
        DataFromGenerator(3)


def test_state_of_one_with_an_iterable_is_refused_by_one_with_a_function():
    state = DataFromGenerator([[1]]).state_dict()
    with pytest.raises(InputError, match="DataFromGenerator got the state of one with an iterable"):
        DataFromGenerator(generate).load_state_dict(state)


def test_iterator_in_it_goes_on_after_what_was_taken():
    def make():
        return DataFromGenerator([k] for k in range(4))

    ds = make()
    next(iter(ds))
    other = make()
    other.load_state_dict(ds.state_dict())
    other.end_pass()
    assert list(other) == [[1], [2], [3]]


def test_generator_is_closed_when_a_pass_is_broken_off():
    ends = []

    def watched():
        try:
            yield [1]
            yield [2]
        finally:
            ends.append(1)

    points = iter(DataFromGenerator(watched))
    next(points)
    points.close()
    assert ends == [1]


def test_points_come_in_the_order_of_the_queue():
    source = queue.Queue()
    for k in range(5):
        source.put([k])
    ds = DataFromQueue(source)
    ds.reset_state()
    assert list(islice(ds, 3)) == [[0], [1], [2]]
    assert list(islice(ds, 2)) == [[3], [4]]
    assert source.empty()


def test_queue_has_no_length_and_no_position():
    ds = DataFromQueue(queue.Queue())
    with pytest.raises(NotImplementedError, match="DataFromQueue does not know its length"):
        len(ds)
    with pytest.raises(StatelessError, match="DataFromQueue cannot tell its position"):
        ds.state_dict()


def test_what_is_no_queue_is_refused():
    with pytest.raises(ConfigError, match=r"DataFromQueue got queue=\[1\]: expected a queue, with a method get\(\)"):
        DataFromQueue([1])


def test_function_that_returns_the_same_iterator_again_is_refused():
    points = iter([[1], [2]])
    ds = DataFromGenerator(lambda: points)
    ds.reset_state()
    assert list(ds) == [[1], [2]]
    with pytest.raises(
        DataExhaustedError, match="got the same iterator from its function again, which an earlier pass"
    ):
        list(ds)
    again = DataFromGenerator(lambda: [[3]])
    assert list(again) == list(again) == [[3]]


def test_iterator_in_place_of_a_function_serves_one_pass():
    ds = DataFromGenerator(iter([[1], [2]]))
    assert list(ds) == [[1], [2]]
    with pytest.raises(DataExhaustedError, match="an earlier pass has used up: use a list, or DataFromGenerator"):
        list(ds)


def test_function_that_returns_no_data_points_is_named():
    with pytest.raises(InputError, match="its function: expected an iterable"):
        list(DataFromGenerator(lambda: None))


def test_generator_function_with_an_iterator_at_hand_is_pickled():
    ds = DataFromGenerator(generate_two)
    next(iter(ds))
    assert list(pickle.loads(pickle.dumps(ds))) == [[1], [2]]


def generate_two():
    yield from [[1], [2]]
