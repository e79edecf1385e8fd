"""Slots that are leased as arrays."""

import numpy as np

from tpack.dataflow.parallel.slots import Leases


def test_array_is_the_memory_and_can_be_written_to():
    memory = np.zeros((2, 256), np.uint8)
    array = Leases().lease(1, 0, memory[1])
    array[3] = 9
    assert memory[1, 3] == 9
    assert array.flags.writeable


def test_lease_ends_when_the_last_view_is_gone_and_only_once():
    leases = Leases()
    array = leases.lease(1, 5, np.zeros((2, 256), np.uint8)[0])
    view = np.ndarray((4, 4), np.float32, array, 64)[1:, ::2]
    row = view.T[0].view(np.uint32)
    del array, view
    assert leases.pop_ended() == []
    assert len(leases) == 1
    del row
    assert leases.pop_ended() == [(1, 5)]
    assert leases.pop_ended() == []
    assert len(leases) == 0


def test_what_holds_the_buffer_keeps_the_lease():
    leases = Leases()
    buffer = memoryview(leases.lease(1, 0, np.zeros(256, np.uint8))[3:])
    assert leases.pop_ended() == []
    del buffer
    assert leases.pop_ended() == [(1, 0)]


def test_slots_are_told_apart():
    leases = Leases()
    arrays = {key: leases.lease(*key, np.zeros(8, np.uint8)) for key in [(1, 0), (1, 1), (2, 0)]}
    assert [leases.count(generation) for generation in (1, 2, 3)] == [2, 1, 0]
    del arrays[1, 1]
    assert leases.pop_ended() == [(1, 1)]
    assert leases.count(1) == 1
