"""Which values fit an entry of a signature, and what is said of those that do not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.input_source.spec_check import Component, SpecMismatch


def component(dtype, shape=None):
    return Component(3, tf.TensorSpec(shape, dtype, "x"))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tf.float32, np.float64(0.1)),
        (tf.float32, 3),
        (tf.float32, True),
        (tf.float16, np.zeros(3, np.float32)),
        (tf.bfloat16, np.zeros(3, np.float32)),
        (tf.int32, np.int64(2**31 - 1)),
        (tf.int32, np.zeros([0], np.int64)),
        (tf.uint8, [0, 255]),
        (tf.int8, np.array([127], np.uint64)),
        (tf.int64, np.uint8(3)),
        (tf.bool, np.True_),
        (tf.complex64, 1.0),
        (tf.string, "text"),
        (tf.string, [[b"a\0", "b"]]),
        (tf.string, np.array(["a", "b"])),
        (tf.string, np.array([b"a", "b"], object)),
    ],
)
def test_values_that_fit_are_taken(dtype, value):
    checked = component(dtype).check(value)
    np.testing.assert_array_equal(checked, np.asarray(value, checked.dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tf.int32, np.array([0.0, 1.0, -0.0], np.float32)),
        (tf.int32, [-(2.0**31), 2.0**31 - 1]),
        (tf.int64, np.array([2.0**63 - 1024, -(2.0**63)])),
        (tf.uint8, np.float16(255)),
        (tf.bool, np.array([0, 1, 1], np.uint8)),
        (tf.bool, [0.0, 1.0]),
        (tf.float32, [1 + 0j, 0.5 - 0j]),
        (tf.int32, np.array([3 + 0j])),
        (tf.int32, np.array([3, 4]).astype(tf.bfloat16.as_numpy_dtype)),
    ],
)
def test_numbers_of_another_kind_are_converted_if_they_are_exact_and_this_is_logged_once(dtype, value, log_dir):
    checked = component(dtype)
    for _ in range(2):
        array = checked.check(value).astype(dtype.as_numpy_dtype)
        np.testing.assert_array_equal(array, np.real(np.asarray(value)).astype(dtype.as_numpy_dtype))
    lines = [line for line in (log_dir / "log.log").read_text().splitlines() if "component 3 ('x') has dtype" in line]
    assert len(lines) == 1
    assert f"is converted to {dtype.name} while its values allow that" in lines[0]


def test_what_was_taken_before_is_not_logged(log_dir):
    component(tf.float32).check(np.uint8([1]))
    component(tf.int32).check(np.int64(1))
    component(tf.float32).check(np.float64(0.1))
    assert "is converted to" not in (log_dir / "log.log").read_text()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tf.float32, 1e300),
        (tf.float32, np.array([np.nan, 1e39])),
        (tf.float32, np.array([np.inf, -1e39])),
        (tf.float16, np.array([70000.0], np.float32)),
        (tf.float16, np.array([70000])),
        (tf.bfloat16, np.array([3.4e38], np.float32)),
        (tf.complex64, np.array([1e300j])),
        (tf.complex64, 1e300),
    ],
)
def test_numbers_that_would_become_infinite_are_misfits(dtype, value):
    with pytest.raises(
        SpecMismatch, match=rf"component 3 \('x'\) has dtype .*, expected {dtype.name}, which cannot hold it"
    ):
        component(dtype).check(value)


def test_an_array_is_neither_copied_nor_cast():
    array = np.zeros(3, np.float64)
    assert component(tf.float32).check(array) is array


def test_zero_bytes_at_the_end_of_a_string_are_kept():
    assert component(tf.string).check(b"a\0\0").item() == b"a\0\0"


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (tf.int32, 1.5, r"dtype float64 \(values from 1.5 to 1.5\), expected int32"),
        (tf.int32, [0.0, np.nan], r"dtype float64 \(values from nan to nan\), expected int32"),
        (tf.int32, np.inf, r"dtype float64 \(values from inf to inf\), expected int32"),
        (tf.int32, 2.0**31, r"dtype float64 \(values from 2147483648.0 .*, expected int32"),
        (tf.int64, 2.0**63, r"dtype float64 \(values from 9.2.*, expected int64"),
        (tf.uint8, -1.0, r"dtype float64 \(values from -1.0 .*, expected uint8"),
        (tf.int32, 2**31, r"dtype int64 \(values from 2147483648 to 2147483648\), expected int32"),
        (tf.uint8, np.array([3, -1]), r"values from -1 to 3\), expected uint8"),
        (tf.int8, np.array([128], np.uint8), "dtype uint8 .*128.*, expected int8"),
        (tf.bool, 2, "dtype int64 .*, expected bool"),
        (tf.bool, [0.5], "dtype float64 .*, expected bool"),
        (tf.int32, np.datetime64("2020-01-01"), "dtype datetime64.*, expected int32"),
        (tf.float32, 1j, "dtype complex128 .*1j.*, expected float32"),
        (tf.float32, "1.5", "dtype <U3 .*'1.5'.*, expected float32"),
        (tf.float32, None, r"dtype object \(first value None\), expected float32"),
        (tf.float32, np.array([1.0], object), "dtype object .*, expected float32"),
        (tf.string, 1.5, r"dtype object \(first value 1.5\), expected string"),
        (tf.string, np.zeros(2), "dtype float64 .*, expected string"),
        (tf.float32, [[1.0], [1.0, 2.0]], "is a list that makes no array: .*inhomogeneous"),
    ],
)
def test_a_wrong_dtype_is_a_misfit(dtype, value, message):
    with pytest.raises(SpecMismatch, match=rf"component 3 \('x'\) .*{message}"):
        component(dtype).check(value)


@pytest.mark.parametrize(
    ("shape", "came"), [(None, ()), (None, (2, 3)), ([], ()), ([None, 3], (0, 3)), ([2, 3], (2, 3))]
)
def test_shapes_that_fit_are_taken(shape, came):
    assert component(tf.float32, shape).check(np.zeros(came, np.float32)).shape == came


@pytest.mark.parametrize(
    ("shape", "came", "message"),
    [
        ([], (1,), r"has rank 1 \(shape \(1,\)\), expected rank 0 \(shape \(\)\)"),
        ([None, 3], (3,), r"has rank 1 \(shape \(3,\)\), expected rank 2 \(shape \(None, 3\)\)"),
        ([None, 3], (3, 2), r"has shape \(3, 2\), expected \(None, 3\)"),
    ],
)
def test_a_wrong_shape_is_a_misfit(shape, came, message):
    with pytest.raises(SpecMismatch, match=rf"^component 3 \('x'\) {message}$"):
        component(tf.float32, shape).check(np.zeros(came, np.float32))


def test_kind_is_what_messages_call_it():
    with pytest.raises(SpecMismatch, match=r"^input 0 \('x'\) has rank"):
        Component(0, tf.TensorSpec([2], tf.float32, "x"), "input").check(1.0)


def test_check_tensor(graph):
    checked = component(tf.float32, [None, 3])
    checked.check_tensor(tf.placeholder(tf.float32))
    checked.check_tensor(tf.zeros([2, 3]))
    assert checked.dtype == np.float32
    for tensor, message in [
        (np.zeros([2, 3], np.float32), "expected a tensor"),
        (tf.zeros([2, 3], tf.int32), "has dtype int32, expected float32"),
        (tf.zeros([2, 4]), r"has shape \(2, 4\), expected \(None, 3\)"),
    ]:
        with pytest.raises(SpecMismatch, match=message):
            checked.check_tensor(tensor)
