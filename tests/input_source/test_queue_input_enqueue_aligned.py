"""Aligned copies hold the same values, in memory of their own."""

import numpy as np
import pytest

from tpack.input_source.queue_input import _ALIGNMENT_BYTES, AlignedCopies, aligned_copy


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 7), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_, np.complex128])
def test_copy_is_equal_aligned_and_apart(rng, shape, dtype):
    array = rng.integers(0, 2, shape).astype(dtype)
    copy = aligned_copy(array, np.dtype(dtype))
    np.testing.assert_array_equal(copy, array)
    assert (copy.dtype, copy.shape, copy.flags.c_contiguous) == (dtype, shape, True)
    assert copy.ctypes.data % _ALIGNMENT_BYTES == 0
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


def test_memory_is_used_again_when_nobody_holds_the_copy():
    copies, dtype = AlignedCopies(), np.dtype(np.float32)
    array = np.arange(40_000)
    first, second = copies.copy(array, dtype), copies.copy(array + 1, dtype)
    address, view = first.ctypes.data, first[10:]
    del first
    # A view holds it as the tensor of a queue does.
    assert copies.copy(array, dtype).ctypes.data not in (address, second.ctypes.data)
    np.testing.assert_array_equal(view, array[10:])
    del view
    addresses = {copy.ctypes.data for copy in [copies.copy(array + 2, dtype) for _ in range(2)]}
    assert address in addresses
    np.testing.assert_array_equal(second, array + 1)


@pytest.mark.parametrize("size", [20_000, 300_000])
def test_memory_that_does_not_fit_is_given_up(size):
    copies, dtype = AlignedCopies(), np.dtype(np.float64)
    copies.copy(np.zeros(100_000), dtype)
    assert len(copies._free) == 1
    copy = copies.copy(np.ones(size), dtype)
    assert (copy.sum(), len(copies._free)) == (size, 0)


def test_small_arrays_and_strings_are_not_kept():
    copies = AlignedCopies()
    assert copies.copy(np.arange(5), np.dtype(np.int32)).tolist() == [0, 1, 2, 3, 4]
    assert copies.copy(np.array(["a"] * 10_000), np.dtype(object)).dtype == object
    assert not copies._free
