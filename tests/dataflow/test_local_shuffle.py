"""Data points shuffled while they pass."""

import pickle
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from tests.helpers.flows import Broken, Counting
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataExhaustedError, InputError


def ready(*args, **kwargs):
    ds = LocallyShuffleData(*args, **kwargs)
    ds.reset_state()
    ds.rng = np.random.RandomState(1)
    return ds


def take(ds, count):
    return [point[0] for point in islice(ds, count)]


def test_points_stay_near_their_place_and_come_as_often_as_they_should():
    found = take(ready(Counting(1000), 10), 900)
    assert found != sorted(found)
    # A point waits in the buffer until as many as it holds have come after it, and some while longer if it moves back.
    assert max(abs(place - k) for place, k in enumerate(found)) < 80
    assert max(Counter(found).values()) == 1


def test_reused_points_come_several_times():
    found = take(ready(Counting(50), 8, num_reuse=3), 3 * 50 * 4)
    assert set(Counter(found).values()) <= set(range(9, 16))


def test_without_shuffling_it_is_a_queue():
    found = take(ready(Counting(5), 3, shuffle_interval=10**6), 12)
    assert found == [0, 1, 2, 3, 4] * 2 + [0, 1]


def test_iteration_goes_on_where_the_last_stopped():
    whole = take(ready(Counting(20), 5), 40)
    ds = ready(Counting(20), 5)
    assert take(ds, 13) + take(ds, 27) == whole


def test_length_is_what_one_pass_over_the_flow_makes():
    assert len(LocallyShuffleData(Counting(20), 5, num_reuse=2)) == 40


def test_two_iterations_at_a_time_are_refused():
    ds = ready(Counting(20), 5)
    points = iter(ds)
    next(points)
    with pytest.raises(InputError, match="LocallyShuffleData is being iterated already"):
        next(iter(ds))
    points.close()


def test_flow_that_raised_is_begun_anew():
    ds = ready(Broken(), 2)
    with pytest.raises(OSError, match="the disk is gone"):
        take(ds, 20)
    assert len(take(ds, 20)) == 20


def test_empty_flow_raises():
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing"):
        take(ready(Counting(0), 2), 1)


def test_pickling_forgets_the_buffer():
    ds = ready(Counting(20), 5)
    take(ds, 7)
    copy = pickle.loads(pickle.dumps(ds))
    assert len(copy._buffer) == 0
    copy.reset_state()
    assert len(take(copy, 30)) == 30


@pytest.mark.parametrize("numbers", [(0,), (5, 0), (5, 1, 0)])
def test_bad_number_is_refused(numbers):
    with pytest.raises(ConfigError, match="LocallyShuffleData got .*: expected an integer of at least 1"):
        LocallyShuffleData(Counting(), *numbers)


def test_state_of_a_larger_buffer_is_refused_and_changes_nothing():
    source = DataFromList([[k] for k in range(20)], shuffle=False)
    ds = ready(source, 5)
    take(ds, 7)
    state = ds.state_dict()
    other = ready(DataFromList([[k] for k in range(20)], shuffle=False), 3)
    with pytest.raises(InputError, match="got another buffer: expected up to 3 points"):
        other.load_state_dict(state)
    with pytest.raises(InputError, match="got another buffer: expected"):
        ready(source, 5).load_state_dict({**state, "order": np.array([9, 9])})
    assert len(take(other, 5)) == 5


def test_points_that_cannot_be_kept_make_it_stateless():
    ds = ready(DataFromList([[object()]], shuffle=False), 2)
    take(ds, 3)
    with pytest.raises(StatelessError, match="LocallyShuffleData cannot save its position with the data points"):
        ds.state_dict()


def test_point_is_in_a_state_once():
    ds = ready(DataFromList([[np.zeros(1000)]], shuffle=False), 8, num_reuse=8)
    take(ds, 1)
    sizes = {len(ds.state_dict()["points"]) // 8000}
    assert sizes <= {1, 2}
