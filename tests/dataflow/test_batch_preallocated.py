"""Data points whose large arrays are copied to their place in a batch as they come."""

import numpy as np
import pytest

from tpack.dataflow.batch import PreallocatedPoints, aggregate, begin_batch
from tpack.errors import DataPointError

LARGE = (64, 64)


def image(value, dtype="uint8", shape=LARGE):
    return np.full(shape, value, dtype)


def gather(points, size=4):
    found = begin_batch(points[0], size)
    for point in points:
        found.append(point)
    return found


@pytest.mark.parametrize(
    "first", [[np.zeros(8), 1, "a"], [np.full(LARGE, None)], {"x": np.zeros(8)}, [], 5, "text", np.zeros(LARGE), None]
)
def test_points_without_large_arrays_of_numbers_are_gathered_in_a_plain_list(first):
    assert type(begin_batch(first, 4)) is list


def test_arrays_that_would_be_far_too_large_are_not_made():
    assert type(begin_batch([image(0)], 1 << 40)) is list


@pytest.mark.parametrize("dtype", ["uint8", ">f4", "U20", "complex64", "datetime64[s]", [("a", "i4"), ("b", "f8")]])
def test_batch_is_that_of_the_points_as_they_came(dtype, rng):
    arrays = [rng.integers(0, 9, LARGE).astype("int32").astype(dtype) for _ in range(3)]
    points = [[k, array, array[:2, :2]] for k, array in enumerate(arrays)]
    gathered = gather(points)
    assert isinstance(gathered, PreallocatedPoints)
    for found, wanted in zip(aggregate(gathered), aggregate(points), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_batch_of_dicts_keeps_their_keys():
    batch = aggregate(gather([{"label": k, "image": image(k)} for k in range(2)]))
    assert list(batch) == ["label", "image"]
    np.testing.assert_array_equal(batch["image"], [image(0), image(1)])


def test_array_without_dimensions_can_be_large():
    (batch,) = aggregate(gather([[np.array(b"x" * 5000)], [np.array(b"y" * 5000)]]))
    assert batch.tolist() == [b"x" * 5000, b"y" * 5000]


def test_arrays_in_any_order_of_memory_are_copied(rng):
    array = rng.random((70, 70, 3))
    views = [array.T, array[::-1].T, np.asfortranarray(array.T)]
    (batch,) = aggregate(gather([[view] for view in views]))
    np.testing.assert_array_equal(batch, np.stack(views))


def test_array_may_be_changed_after_its_point_was_added_and_is_not_changed():
    array, points = image(0), begin_batch([image(0)], 3)
    point = [array]
    for value in range(3):
        array[...] = value
        points.append(point)
    assert point[0] is array
    assert aggregate(points)[0][:, 0, 0].tolist() == [0, 1, 2]


def test_batch_is_the_memory_that_was_copied_to():
    points = gather([[image(1)], [image(2)]])
    (batch,) = aggregate(points)
    assert np.shares_memory(batch, points.arrays[0])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            [image(0, "float32")],
            r"component 0 of data point 11 has shape \(64, 64\) and dtype float32: expected shape \(64, 64\) and",
        ),
        ([image(0, shape=(64, 65))], r"component 0 of data point 11 has shape \(64, 65\)"),
        ([None], "component 0 of data point 11 is a NoneType"),
        ([5], "component 0 of data point 11 has shape .*int32"),
        ([], "data point 11 has 0 components: expected 1, like data point 10"),
        ([image(0), 1], "data point 11 has 2 components: expected 1, like data point 10"),
        ({0: image(0)}, "data point 11 is a dict: expected a list, a tuple or a dict"),
        (image(0), "data point 11 is a ndarray: expected a list"),
    ],
)
def test_unlike_points_are_refused_as_without_copying(second, message):
    points = [[image(0)], second, [image(0)]]
    for gathered in (points, gather(points)):
        with pytest.raises(DataPointError, match=message):
            aggregate(gathered, first_index=10)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ([image(0)], "data point 11 is a list: expected a dict, like data point 10"),
        ({"y": image(0)}, r"data point 11 has the components \['y'\]: expected \['x'\], like data point 10"),
    ],
)
def test_unlike_dicts_are_refused_as_without_copying(second, message):
    with pytest.raises(DataPointError, match=message):
        aggregate(gather([{"x": image(0)}, second]), first_index=10)
