"""Batches of data points: what they hold, and what is refused."""

import numpy as np
import pytest

from tpack.dataflow.batch import aggregate
from tpack.errors import ConfigError, DataPointError


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 4)])
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "bool", "U3"])
def test_arrays_get_a_new_first_dimension(shape, dtype, rng):
    arrays = [np.asarray(rng.random(shape) * 9).astype(dtype) for _ in range(3)]
    (batch,) = aggregate([[array] for array in arrays])
    assert batch.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(batch, np.stack(arrays))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "int32"),
        ([1.5, 2.0], "float32"),
        ([True, False], "bool"),
        (["a", "longer"], "object"),
        ([b"a\0", b"b"], "object"),
        ([np.int64(1), np.int64(2)], "int64"),
        ([np.str_("a"), np.str_("longer")], "object"),
        ([1.5, np.float32(2)], "float32"),
    ],
)
def test_scalars_become_a_vector(values, dtype):
    (batch,) = aggregate([(value,) for value in values])
    assert batch.dtype == np.dtype(dtype)
    assert batch.tolist() == values


def test_components_keep_their_order_and_dicts_their_keys():
    image = np.ones((2, 2))
    as_list = aggregate([[image, 1], (image, 2)])
    as_dict = aggregate([{"image": image, 3: 1}, {3: 2, "image": image}])
    assert [part.shape for part in as_list] == [(2, 2, 2), (2,)]
    assert list(as_dict) == ["image", 3]
    for left, right in zip(as_list, as_dict.values(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_lists_may_hold_unlike_components():
    assert aggregate([[1, [1]], [2.5, "b"]], use_list=True) == [[1, 2.5], [[1], "b"]]
    assert aggregate([{"a": 1}, {"a": None}], use_list=True) == {"a": [1, None]}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [[0, np.zeros((2, 3))], [0, np.zeros((2, 4))]],
            r"component 1 of data point 11 has shape \(2, 4\) and dtype float64: expected shape \(2, 3\) and dtype",
        ),
        ([[np.zeros(2, "u1")], [np.zeros(2, "f4")]], "component 0 of data point 11 has .*dtype float32.*dtype uint8"),
        (
            [[1], [2.5]],
            r"component 0 of data point 11 has shape \(\) and dtype float32: expected shape \(\) and dtype int32, like",
        ),
        ([{"x": 1}, {"x": "a"}], "component 'x' of data point 11 has shape .*object"),
        ([[1], [[2]]], "component 0 of data point 11 is a list: expected an array, a number or a string"),
        ([[1], [None]], "component 0 of data point 11 is a NoneType"),
        ([[2**31]], "component 0 of data point 10 is 2147483648: expected an int32"),
        ([[1, 2], [1, 2], [1]], "data point 12 has 1 components: expected 2, like data point 10"),
        ([[1], {"a": 1}], "data point 11 is a dict: expected a list, a tuple or a dict"),
        ([{"a": 1}, [1]], "data point 11 is a list: expected a dict, like data point 10"),
        ([{"a": 1}, {"b": 1}], r"data point 11 has the components \['b'\]: expected \['a'\], like data point 10"),
        ([np.zeros(3)], "data point 10 is a ndarray: expected a list"),
    ],
)
def test_unlike_points_are_refused_by_name(points, message):
    with pytest.raises(DataPointError, match=message):
        aggregate(points, first_index=10)


def test_no_points_are_refused():
    with pytest.raises(ConfigError, match="got 0 data points: expected at"):
        aggregate([])
