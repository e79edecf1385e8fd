"""Aligned copies hold the same values, in memory of their own."""

import numpy as np
import pytest

from tpack.input_source.aligned import ALIGNMENT_BYTES, aligned_copy


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 7), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_, np.complex128])
def test_copy_is_equal_aligned_and_apart(rng, shape, dtype):
    array = rng.integers(0, 2, shape).astype(dtype)
    copy = aligned_copy(array, np.dtype(dtype))
    np.testing.assert_array_equal(copy, array)
    assert (copy.dtype, copy.shape, copy.flags.c_contiguous) == (dtype, shape, True)
    assert copy.ctypes.data % ALIGNMENT_BYTES == 0
    assert not np.shares_memory(copy, array)


def test_copy_casts_and_takes_any_layout(rng):
    array = rng.integers(0, 200, (6, 4)).T[::2]
    np.testing.assert_array_equal(aligned_copy(array, np.dtype(np.uint8)), array.astype(np.uint8))


def test_strings_become_objects():
    for array in (np.array(["a", "bc"]), np.array([b"a\0", "b"], object)):
        copy = aligned_copy(array, np.dtype(object))
        assert copy.dtype == object
        assert copy is not array
        assert copy.tolist() == array.tolist()
