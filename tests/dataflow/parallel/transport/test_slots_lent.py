"""Memory that is lent out as arrays."""

import numpy as np

from tpack.dataflow.parallel.transport.slots import LentSlots


def test_array_is_the_memory_and_can_be_written_to():
    memory = np.zeros((2, 256), np.uint8)
    array = LentSlots().lend(1, 0, memory[1])
    array[3] = 9
    assert memory[1, 3] == 9
    assert array.flags.writeable


def test_slot_is_unused_when_the_last_view_is_gone_and_only_once():
    lent = LentSlots()
    array = lent.lend(1, 5, np.zeros((2, 256), np.uint8)[0])
    view = np.ndarray((4, 4), np.float32, array, 64)[1:, ::2]
    row = view.T[0].view(np.uint32)
    del array, view
    assert lent.pop_unused() == []
    assert len(lent) == 1
    del row
    assert lent.pop_unused() == [(1, 5)]
    assert lent.pop_unused() == []
    assert len(lent) == 0


def test_what_holds_the_buffer_uses_the_slot():
    lent = LentSlots()
    buffer = memoryview(lent.lend(1, 0, np.zeros(256, np.uint8))[3:])
    assert lent.pop_unused() == []
    del buffer
    assert lent.pop_unused() == [(1, 0)]


def test_slots_are_told_apart():
    lent = LentSlots()
    arrays = {key: lent.lend(*key, np.zeros(8, np.uint8)) for key in [(1, 0), (1, 1), (2, 0)]}
    assert [lent.count(generation) for generation in (1, 2, 3)] == [2, 1, 0]
    del arrays[1, 1]
    assert lent.pop_unused() == [(1, 1)]
    assert lent.count(1) == 1
