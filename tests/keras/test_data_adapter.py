import keras
import numpy as np
import pytest
import tensorflow as tf2

from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.keras.data_adapter import NestedData, nested_arrays, split_for_tower, tower_batches, weights_of_classes

A, B, C = np.arange(10.0), np.arange(20.0).reshape(10, 2), np.ones(10)


def test_rows_of_a_batch_are_split_evenly_and_count_by_their_number():
    parts = [split_for_tower([A[:5], B[:5]], number, 3) for number in range(3)]
    assert [len(part[0]) for part in parts] == [1, 2, 2]
    assert [part[-1].tolist() for part in parts] == [pytest.approx([0.6]), *[pytest.approx([1.2] * 2)] * 2]
    assert sum(part[-1].mean() for part in parts) / 3 == pytest.approx(1)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), B[:5])
    empty = [split_for_tower([A[:1]], number, 3) for number in range(3)]
    assert [part[-1].tolist() for part in empty] == [[0.0], [0.0], [3.0]]
    assert [part[0].tolist() for part in empty] == [[0.0]] * 3


def test_the_position_is_within_a_batch_too():
    flow = tower_batches([A], 4, 3, shuffle=True)
    flow.reset_state()
    assert len(flow) == 9
    points = iter(flow)
    first = [next(points)[0].tolist() for _ in range(4)]
    state = flow.state_dict()
    rest = [point[0].tolist() for point in points]
    again = tower_batches([A], 4, 3, shuffle=True)
    again.reset_state()
    again.load_state_dict(state)
    assert [point[0].tolist() for point in again] == rest
    assert len(first) + len(rest) == 9


def test_arrays_are_nested_as_keras_takes_them():
    both = nested_arrays((A, B, C), 2, 1)
    assert (both.x[0] is A, both.x[1] is B, both.y is C, both.weight) == (True, True, True, None)
    weighted = nested_arrays((A, B, C), 1, 1)
    assert (weighted.x is A, weighted.y is B, weighted.weight is C) == (True, True, True)
    nested = nested_arrays(({"a": A}, [B, C]), None, 2)
    assert (set(nested.x), len(nested.y)) == ({"a"}, 2)
    with eager_mode():
        assert isinstance(nested_arrays((tf2.constant(A), B), 1, 1).x, np.ndarray)
    assert nested_arrays([[1, 2]], 1, 1) is None
    with pytest.raises(ConfigError, match=r"got 1 array\(s\): expected the inputs, then 2 of targets"):
        nested_arrays((A,), 1, 2)


def test_weights_and_splits_are_those_of_keras():
    with eager_mode():
        own = weights_of_classes(np.eye(3)[[0, 2, 1]], {0: 2.0, 2: 0.5})
    assert own.tolist() == [2.0, 0.5, 1.0]
    first, last = NestedData(A, {"y": B}).split(0.25)
    assert (first.num_rows, last.num_rows) == (7, 3)
    with pytest.raises(ConfigError, match="validation_split=1.0 and 10 examples"):
        NestedData(A).split(1.0)
    with pytest.raises(ConfigError, match="class_weight with sample_weight or several targets"):
        NestedData(A, {"y": B}).weighted(None, {0: 1.0})
    with pytest.raises(ConfigError, match="data with their own weights or batches"):
        NestedData(A, B, C).weighted(C, None)
    with pytest.raises(ConfigError, match="validation_split and no arrays"):
        NestedData(keras.Input([1]), batches=object()).split(0.5)
