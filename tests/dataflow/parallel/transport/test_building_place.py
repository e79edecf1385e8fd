"""Arrays that are made in a slot."""

import numpy as np

from tpack.dataflow.parallel.transport.building import REST_BYTES, Place, size_bytes


def test_arrays_lie_in_the_memory_one_after_the_other():
    memory = np.zeros(10_000, np.uint8)
    place = Place(memory)
    first, second = place.empty((3, 5), np.uint8), place.empty(2, "float32")
    first[:] = 1
    second[:] = 2
    assert (place.start_of(first), place.start_of(second)) == (0, 64)
    assert place.end == 72
    assert memory[:15].tolist() == [1] * 15
    assert memory[64:72].view(np.float32).tolist() == [2, 2]


def test_reshaped_array_is_found_and_other_views_are_not():
    place = Place(np.zeros(10_000, np.uint8))
    array = place.empty((4, 6), np.float32)
    assert place.start_of(array.reshape(2, 2, 6)) == 0
    assert place.start_of(array[1:]) == 24
    assert place.start_of(array[:, ::2]) is None
    assert place.start_of(np.zeros(3)) is None


def test_what_does_not_fit_or_is_an_object_lies_elsewhere():
    place = Place(np.zeros(10_000, np.uint8))
    assert place.start_of(place.empty(3, object)) is None
    assert not place.is_short
    assert place.start_of(place.empty(10_001 - REST_BYTES, np.uint8)) is None
    assert place.is_short
    assert place.end == 0
    assert place.start_of(place.empty(10_000 - REST_BYTES, np.uint8)) == 0


def test_size_is_that_of_the_array():
    for shape, dtype in [((), np.uint8), (7, "float32"), ((3, 0), int), ((2, 5), [("a", "i4"), ("b", "f8")])]:
        assert size_bytes(shape, dtype) == np.empty(shape, dtype).nbytes
