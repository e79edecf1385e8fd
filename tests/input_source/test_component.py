"""Which values fit an entry of a signature, and what is said of those that do not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.input_source.component import Component, Misfit


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


def test_an_array_is_neither_copied_nor_cast():
    array = np.zeros(3, np.float64)
    assert component(tf.float32).check(array) is array


def test_zero_bytes_at_the_end_of_a_string_are_kept():
    assert component(tf.string).check(b"a\0\0").item() == b"a\0\0"


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (tf.int32, 1.0, r"dtype float64 \(values from 1.0 to 1.0\), wanted int32"),
        (tf.int32, 2**31, r"dtype int64 \(values from 2147483648 to 2147483648\), wanted int32"),
        (tf.uint8, np.array([3, -1]), r"values from -1 to 3\), wanted uint8"),
        (tf.int8, np.array([128], np.uint8), "dtype uint8 .*128.*, wanted int8"),
        (tf.int32, np.zeros([0]), "dtype float64, wanted int32"),
        (tf.bool, 1, "dtype int64 .*, wanted bool"),
        (tf.float32, 1j, "dtype complex128 .*1j.*, wanted float32"),
        (tf.float32, "1.5", "dtype <U3 .*'1.5'.*, wanted float32"),
        (tf.float32, None, r"dtype object \(first value None\), wanted float32"),
        (tf.float32, np.array([1.0], object), "dtype object .*, wanted float32"),
        (tf.string, 1.5, r"dtype object \(first value 1.5\), wanted string"),
        (tf.string, np.zeros(2), "dtype float64 .*, wanted string"),
        (tf.float32, [[1.0], [1.0, 2.0]], "is a list that makes no array: .*inhomogeneous"),
    ],
)
def test_a_wrong_dtype_is_a_misfit(dtype, value, message):
    with pytest.raises(Misfit, match=rf"component 3 \('x'\) .*{message}"):
        component(dtype).check(value)


@pytest.mark.parametrize(
    ("shape", "came"), [(None, ()), (None, (2, 3)), ([], ()), ([None, 3], (0, 3)), ([2, 3], (2, 3))]
)
def test_shapes_that_fit_are_taken(shape, came):
    assert component(tf.float32, shape).check(np.zeros(came, np.float32)).shape == came


@pytest.mark.parametrize(
    ("shape", "came", "message"),
    [
        ([], (1,), r"has rank 1 \(shape \(1,\)\), wanted rank 0 \(shape \(\)\)"),
        ([None, 3], (3,), r"has rank 1 \(shape \(3,\)\), wanted rank 2 \(shape \(None, 3\)\)"),
        ([None, 3], (3, 2), r"has shape \(3, 2\), wanted \(None, 3\)"),
    ],
)
def test_a_wrong_shape_is_a_misfit(shape, came, message):
    with pytest.raises(Misfit, match=rf"^component 3 \('x'\) {message}$"):
        component(tf.float32, shape).check(np.zeros(came, np.float32))


def test_kind_is_what_messages_call_it():
    with pytest.raises(Misfit, match=r"^input 0 \('x'\) has rank"):
        Component(0, tf.TensorSpec([2], tf.float32, "x"), "input").check(1.0)


def test_check_tensor(graph):
    checked = component(tf.float32, [None, 3])
    checked.check_tensor(tf.placeholder(tf.float32))
    checked.check_tensor(tf.zeros([2, 3]))
    assert checked.dtype == np.float32
    for tensor, message in [
        (np.zeros([2, 3], np.float32), "wanted a tensor"),
        (tf.zeros([2, 3], tf.int32), "has dtype int32, wanted float32"),
        (tf.zeros([2, 4]), r"has shape \(2, 4\), wanted \(None, 3\)"),
    ]:
        with pytest.raises(Misfit, match=message):
            checked.check_tensor(tensor)
