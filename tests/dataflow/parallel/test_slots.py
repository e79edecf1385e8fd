"""The slots of a producer."""

import os

import pytest

from tpack.dataflow.parallel import slots as slots_module
from tpack.dataflow.parallel.slots import MIN_SLOT_BYTES, Slots, create_block, split
from tpack.errors import InputError


@pytest.fixture
def announced():
    return []


@pytest.fixture
def slots(announced):
    def announce(descriptor, *what):
        os.fstat(descriptor)
        announced.append(what)

    return Slots(announce, 10)


@pytest.fixture
def memory_for(monkeypatch):
    """A function that lets there be shared memory for so many slots of the smallest size."""

    def limit(count):
        left = [count * MIN_SLOT_BYTES]

        def create(size_bytes):
            if size_bytes > left[0]:
                raise InputError("full")
            left[0] -= size_bytes
            return create_block(size_bytes)

        monkeypatch.setattr(slots_module, "create_block", create)

    return limit


def test_slots_are_made_when_they_are_needed(slots, announced):
    assert slots.can_take
    taken = [slots.take(100) for _ in range(4)]
    assert taken == [0, 1, 2, 3]
    assert announced == [(1, 4, MIN_SLOT_BYTES, True)]
    assert [slots.take(100) for _ in range(7)] == [4, 5, 6, 7, 8, 9, None]
    assert announced[1:] == [(1, 4, MIN_SLOT_BYTES, False), (1, 2, MIN_SLOT_BYTES, False)]
    assert not slots.can_take


def test_slot_used_last_is_used_first(slots):
    first, second = slots.take(1), slots.take(1)
    slots.give_back(slots.generation, second)
    slots.give_back(slots.generation, first)
    assert slots.take(1) == first


def test_slots_do_not_overlap(slots):
    for slot in range(8):
        assert slots.take(1) == slot
        slots.memory(slot)[:] = slot
    assert [set(slots.memory(slot).tolist()) for slot in range(8)] == [{slot} for slot in range(8)]


def test_larger_message_begins_a_generation_with_room_to_spare(slots, announced):
    old = slots.take(100)
    size = 4 * MIN_SLOT_BYTES
    assert slots.take(size) == 0
    assert announced[-1] == (2, 4, size + size // 4, True)
    slots.give_back(1, old)
    assert [slots.take(size) for _ in range(3)] == [1, 2, 3]


def test_many_large_slots_are_not_made(slots, announced):
    for _ in range(4):
        slots.take(60_000_000)
    assert slots.take(60_000_000) is None
    assert sum(count for _, count, *_ in announced) == 4


@pytest.mark.parametrize("count", [1, 2, 3])
def test_full_memory_leaves_fewer_slots(slots, announced, memory_for, count):
    memory_for(count)
    made = {1: 1, 2: 2, 3: 2}[count]
    assert [slots.take(1) for _ in range(4)] == [*range(made), *[None] * (4 - made)]
    assert announced == [(1, made, MIN_SLOT_BYTES, True)]


def test_full_memory_later_on_leaves_the_slots_there_are(slots, memory_for):
    memory_for(4)
    assert [slots.take(1) for _ in range(5)] == [0, 1, 2, 3, None]
    assert not slots.can_take
    slots.give_back(slots.generation, 2)
    assert slots.take(1) == 2


def test_full_memory_is_an_error_without_one_slot(slots, announced, memory_for):
    memory_for(0)
    with pytest.raises(InputError, match="full"):
        slots.take(1)
    assert announced == []
    memory_for(4)
    assert slots.take(1) == 0


def test_split_gives_equal_parts():
    block, descriptor = create_block(12)
    os.close(descriptor)
    assert [part.shape for part in split(block, 3)] == [(4,)] * 3
