"""The consumer's end of a channel: what it hands out, and what it gives back."""

import gc
import os
import socket

import numpy as np
import pytest

from tests.helpers.channels import channel, exchange
from tpack.dataflow.parallel.receiver import Receiver
from tpack.dataflow.parallel.slots import MAX_LEASES, RECORD, VIEW_BYTES, PeerGoneError, Record
from tpack.errors import InputError


def large(k, size=2 * VIEW_BYTES):
    return [np.full(size, k, np.uint8), k]


def is_view(array):
    return array.base is not None


def test_large_array_is_a_view_and_small_ones_are_copies():
    with channel() as (sender, receiver):
        (point,) = exchange(sender, receiver, [[np.ones(VIEW_BYTES, np.uint8), np.ones(VIEW_BYTES - 1, np.uint8)]])
        assert is_view(point[0])
        assert not is_view(point[1])


def test_view_can_be_written_to_and_is_aligned():
    with channel() as (sender, receiver):
        (point,) = exchange(sender, receiver, [large(3)])
        point[0] += 1
        assert set(point[0].tolist()) == {4}
        assert point[0].__array_interface__["data"][0] % 64 == 0


def test_view_is_not_overwritten_while_anything_refers_to_it():
    with channel(4) as (sender, receiver):
        (point,) = exchange(sender, receiver, [large(0)])
        part = point[0].reshape(2, -1)[1, ::5]
        del point
        for k in range(1, 50):
            exchange(sender, receiver, [large(k)])
        assert set(part.tolist()) == {0}


def test_memory_goes_round():
    with channel() as (sender, receiver):
        places = set()
        for k in range(50):
            (point,) = exchange(sender, receiver, [large(k)])
            places.add(point[0].__array_interface__["data"][0])
            assert point[0][0] == k
        assert len(places) <= 4


def test_so_many_views_are_kept_and_then_copies_are_handed_out():
    with channel() as (sender, receiver):
        kept = exchange(sender, receiver, [large(k) for k in range(40)])
        assert sum(is_view(point[0]) for point in kept) == 2
        # While many wait, there are more slots.
        for k in range(20):
            sender.put(large(k))
        receiver.fill(wait=False)
        kept += [receiver.receive().points[0] for _ in range(20)]
        assert sum(is_view(point[0]) for point in kept) == MAX_LEASES
        assert [int(point[0][5]) for point in kept] == [*range(40), *range(20)]
        kept.clear()
        assert is_view(exchange(sender, receiver, [large(1)])[0][0])


def test_larger_points_leave_earlier_ones_as_they_are():
    with channel() as (sender, receiver):
        kept = exchange(sender, receiver, [large(k, (k + 2) * VIEW_BYTES) for k in range(20)])
        for k in range(20, 30):
            sender.put(large(k, (k + 2) * VIEW_BYTES))
        for _ in range(10):
            kept += receiver.receive().points
        assert [set(point[0].tolist()) for point in kept] == [{k} for k in range(30)]


def test_views_outlive_the_channel_and_descriptors_do_not():
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))
    with channel() as (sender, receiver):
        (point,) = exchange(sender, receiver, [large(3)])
        exchange(sender, receiver, [large(4, 10 * VIEW_BYTES)])
    del sender, receiver
    assert set(point[0].tolist()) == {3}
    del point
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_what_was_not_taken_is_closed_with_the_channel():
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))
    with channel() as (sender, receiver):
        sender.put(large(1))
        receiver.fill(wait=False)
        sender.put(large(1, 100 * VIEW_BYTES))
    del sender, receiver
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_everything_that_was_sent_arrives_after_the_producer_is_gone():
    with channel() as (sender, receiver):
        for k in range(5):
            sender.put(large(k))
        sender.send(Record.END)
        sender.close()
        assert [receiver.receive().points[0][1] for _ in range(5)] == [0, 1, 2, 3, 4]
        assert receiver.receive().kind == Record.END
        with pytest.raises(PeerGoneError, match="come from is gone"):
            receiver.receive()
        assert not receiver.fill(wait=False)


def test_nothing_to_read_is_not_the_end():
    with channel() as (sender, receiver):
        assert receiver.fill(wait=False)
        assert not receiver.has_message
        with pytest.raises(IndexError):
            receiver.take()


def test_memory_that_comes_without_a_descriptor_is_said_to_be_one_file_too_many():
    here, there = socket.socketpair()
    receiver = Receiver(there)
    here.sendall(RECORD.pack(Record.BLOCK, 1, 4, 4096, 1))
    with pytest.raises(InputError, match="too many open files; use a higher `ulimit"):
        receiver.fill(wait=True)
    here.close()
    receiver.close()
