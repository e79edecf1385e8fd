"""Calling a function once on each of several devices."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import get_update_device
from tpack.distribute.values import Mirrored, PerDevice, update_on_devices
from tpack.errors import StrategyError

A, B = "/device:CPU:0", "/device:CPU:1"


def test_each_call_has_its_device_and_its_parts(graph):
    def update(subject, x, *, y):
        return tf.no_op(name="op"), (subject, x, y, get_update_device())

    x = Mirrored({A: "xa", B: "xb"})
    operations, seen = update_on_devices(update, {A: ("a",), B: ("b",)}, (x,), {"y": [x, 1]})
    assert isinstance(operations, Mirrored)
    assert [operation.device for operation in operations.index.values()] == [A, B]
    assert [operation.name for operation in operations.index.values()] == ["update_0/op", "update_1/op"]
    assert [part.get(B) for part in (seen[0], seen[1], seen[2][0], seen[3])] == ["b", "xb", "xb", B]
    assert seen[2][1] == 1
    assert get_update_device() is None


def test_the_same_result_is_itself_and_so_is_that_of_one_device(graph):
    assert update_on_devices(lambda: None, {A: (), B: ()}, (), {}) is None
    assert update_on_devices(lambda x: x, {A: (1,)}, (), {}) == 1


def test_values_of_towers_are_refused(graph):
    with pytest.raises(StrategyError, match="expected mirrored values"):
        update_on_devices(lambda x: x, {A: ()}, (PerDevice({A: 1}),), {})
