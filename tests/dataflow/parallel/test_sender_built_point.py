"""Data points that are made in the slot that they are sent in."""

import threading

import numpy as np
import pytest

from tests.helpers.channels import channel, exchange
from tpack.dataflow.parallel.sender import BuiltPoint
from tpack.dataflow.parallel.slots import VIEW_BYTES
from tpack.errors import DataPointError


def test_array_is_not_copied_from_the_first_point_on():
    with channel() as (sender, receiver):
        built = BuiltPoint(sender)
        for k in range(5):
            made = built.empty((4, VIEW_BYTES), np.uint8)
            made[:] = k
            built.send([made.reshape(2, 2, -1), np.arange(4)])
            first, second = receiver.receive().points[0]
            assert first.shape == (2, 2, VIEW_BYTES)
            assert set(first[0, 0].tolist()) == {k}
            assert second.tolist() == [0, 1, 2, 3]
            made[:] = 99
            assert set(first[1, 1].tolist()) == {99}


@pytest.mark.parametrize("over", [0, 10, 2000, 4000])
def test_several_arrays_are_not_copied_when_their_size_is_known(over):
    with channel() as (sender, receiver):
        built = BuiltPoint(sender)
        for _ in range(2):
            made = [built.empty(VIEW_BYTES + over, np.uint8) for _ in range(9)]
            for k, array in enumerate(made):
                array[:] = k
            built.send([*made, "text"])
            *found, text = receiver.receive().points[0]
            assert [set(array.tolist()) for array in found] == [{k} for k in range(9)]
            assert text == "text"
        for array in made:
            array[:] = 99
        assert {value for array in found for value in array.tolist()} == {99}


def test_arrays_from_elsewhere_and_none_at_all_can_be_sent():
    with channel() as (sender, receiver):
        built = BuiltPoint(sender)
        for _ in range(2):
            for point in ([np.arange(3), "a"], ["b"], [built.empty(2, object)]):
                built.send(point)
                np.testing.assert_equal(receiver.receive().points[0], point)


def test_slot_is_free_again_after_the_point_was_given_up():
    with channel(1) as (sender, receiver):
        built = BuiltPoint(sender)
        built.give_up()
        for _ in range(20):
            built.empty(VIEW_BYTES, np.uint8)
            built.give_up()
        assert exchange(sender, receiver, [[1]]) == [[1]]
        assert sender.open_slot(1).slot == 0


def test_slot_is_free_again_after_a_point_that_cannot_be_sent():
    with channel(1) as (sender, receiver):
        built = BuiltPoint(sender)
        for _ in range(20):
            with pytest.raises(DataPointError, match="cannot be sent"):
                built.send([built.empty(VIEW_BYTES, np.uint8), threading.Lock()])
        assert exchange(sender, receiver, [[1]]) == [[1]]
        assert sender.open_slot(1).slot == 0


def test_memory_that_is_in_use_is_not_made_anything_else_of():
    with channel(2) as (sender, receiver):
        built, kept = BuiltPoint(sender), []
        for k in range(30):
            made = built.empty(VIEW_BYTES, np.uint8)
            made[:] = k
            built.send([made])
            kept += receiver.receive().points
        assert [set(point[0].tolist()) for point in kept] == [{k} for k in range(30)]
