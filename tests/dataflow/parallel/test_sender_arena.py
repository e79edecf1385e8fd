"""Arrays that are made in a slot."""

import numpy as np

from tpack.dataflow.parallel.sender import _REST_BYTES, _Arena, _size_bytes


def test_arrays_lie_in_the_memory_one_after_the_other():
    memory = np.zeros(10_000, np.uint8)
    arena = _Arena(memory)
    first, second = arena.empty((3, 5), np.uint8), arena.empty(2, "float32")
    first[:] = 1
    second[:] = 2
    assert (arena.start_of(first), arena.start_of(second)) == (0, 64)
    assert arena.end == 72
    assert memory[:15].tolist() == [1] * 15
    assert memory[64:72].view(np.float32).tolist() == [2, 2]


def test_reshaped_array_is_found_and_other_views_are_not():
    arena = _Arena(np.zeros(10_000, np.uint8))
    array = arena.empty((4, 6), np.float32)
    assert arena.start_of(array.reshape(2, 2, 6)) == 0
    assert arena.start_of(array[1:]) == 24
    assert arena.start_of(array[:, ::2]) is None
    assert arena.start_of(np.zeros(3)) is None


def test_what_does_not_fit_or_is_an_object_lies_elsewhere():
    arena = _Arena(np.zeros(10_000, np.uint8))
    assert arena.start_of(arena.empty(3, object)) is None
    assert not arena.is_short
    assert arena.start_of(arena.empty(10_001 - _REST_BYTES, np.uint8)) is None
    assert arena.is_short
    assert arena.end == 0
    assert arena.start_of(arena.empty(10_000 - _REST_BYTES, np.uint8)) == 0


def test_size_is_that_of_the_array():
    for shape, dtype in [((), np.uint8), (7, "float32"), ((3, 0), int), ((2, 5), [("a", "i4"), ("b", "f8")])]:
        assert _size_bytes(shape, dtype) == np.empty(shape, dtype).nbytes
