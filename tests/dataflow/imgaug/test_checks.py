"""What is refused, with which words."""

import numpy as np
import pytest

from tpack.dataflow.imgaug import checks
from tpack.errors import ConfigError, DataPointError

OWNER = object()


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, bool, np.int32, np.uint16, np.float16, ">f4", np.complex64])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 3), (2, 3, 7)])
def test_images_have_height_and_width(shape, dtype):
    assert checks.check_image(OWNER, np.zeros(shape, dtype)) == (2, 3)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ([[1]], "got a list: expected an image, a numpy array"),
        (np.zeros(3, np.uint8), r"shape \(3,\): expected \(H, W\) or \(H, W, C\)"),
        (np.zeros((0, 3), np.uint8), r"shape \(0, 3\): expected \(H"),
        (np.zeros((2, 3), object), "dtype object: expected numbers"),
        (np.zeros((2, 3), "U2"), "dtype <U2: expected numbers"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    with pytest.raises(DataPointError, match=message):
        checks.check_image(OWNER, image)


@pytest.mark.parametrize("dtype", [np.int64, bool, ">f4", np.float16])
def test_other_values_are_not_computed_with(dtype):
    with pytest.raises(DataPointError, match=r"expected uint8 or floats; use ToUint8\(\) or"):
        checks.check_values(OWNER, np.zeros((2, 3), dtype))
    with pytest.raises(DataPointError, match="expected uint8 or floats; do so"):
        checks.check_values(OWNER, np.zeros((2, 3), dtype), "do so")
    assert not checks.has_value_dtype(np.zeros((2, 3), dtype))


def test_numeric_image_is_of_real_numbers():
    checks.check_numeric_image(OWNER, np.zeros((2, 2), np.int64))
    with pytest.raises(DataPointError, match="dtype complex128: expected real numbers"):
        checks.check_numeric_image(OWNER, np.zeros((2, 2), np.complex128))


def test_image_of_another_size_is_refused():
    checks.check_image_size(OWNER, np.zeros((2, 3, 4), np.uint8), 2, 3)
    with pytest.raises(DataPointError, match=r"image of shape \(2, 3\): expected height 3, width 2"):
        checks.check_image_size(OWNER, np.zeros((2, 3), np.uint8), 3, 2)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 4)])
def test_colour_has_three_channels(shape):
    with pytest.raises(DataPointError, match=r"image of shape \(2, 3.*expected three channels"):
        checks.check_color(OWNER, np.zeros(shape, np.uint8))


def test_points_are_a_copy_in_floats():
    points = np.ones((3, 2), np.float32)
    copy = checks.check_points(OWNER, points, 2)
    assert copy.dtype == np.float32
    assert not np.shares_memory(copy, points)
    assert checks.check_points(OWNER, [[1, 2]], 2).dtype == np.float64
    assert checks.check_points(OWNER, np.zeros((0, 4)), 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("points", "columns", "message"),
    [
        (np.zeros((2, 3)), 2, r"expected coordinates \(x, y\), real numbers of shape \(N, 2\)"),
        (np.zeros(4), 4, r"expected boxes \(x1, y1, x2, y2\), real numbers of shape \(N, 4\)"),
        (np.zeros((2, 2), bool), 2, "dtype bool: expected coordinates"),
    ],
)
def test_what_are_no_points_is_refused(points, columns, message):
    with pytest.raises(DataPointError, match=message):
        checks.check_points(OWNER, points, columns)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, r"delta=3: expected \(low, high\)"),
        (None, r"delta=None: expected \(low, high\)"),
        ((1,), r"delta=\(1,\): expected \(low, high\)"),
        ((2, 1), "delta=.*: expected the smaller number first"),
        ((-1, 2), r"delta\[0\]=-1: expected a number of at least 0 and of at most 5"),
        ((0, 9), r"delta\[1\]=9: expected a number of at least 0 and of at most 5"),
        (("a", "b"), r"delta\[0\]='a': expected a number of at least 0"),
        ((True, 2), r"delta\[0\]=True: expected a number of at least 0"),
    ],
)
def test_what_is_no_range_is_refused(value, message):
    with pytest.raises(ConfigError, match=f"object got {message}"):
        checks.check_range(OWNER, "delta", value, 0, 5)


def test_range_may_be_a_list_or_an_array():
    assert checks.check_range(OWNER, "delta", [1, 2]) == (1, 2)
    assert checks.check_range(OWNER, "delta", np.array([1, 2])) == (1, 2)


@pytest.mark.parametrize("value", [0, (0, 3), (1, 2, 3), "a", 1.5, None, 10**6, (2, 2**30), (True, 2)])
def test_what_is_no_shape_is_refused(value):
    with pytest.raises(ConfigError, match="object got shape=.*: "):
        checks.check_shape(OWNER, "shape", value)


def test_shape_is_given_by_one_or_two_integers():
    assert checks.check_shape(OWNER, "shape", 3) == (3, 3)
    assert checks.check_shape(OWNER, "shape", [3, 4]) == (3, 4)
