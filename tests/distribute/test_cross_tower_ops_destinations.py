from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import per_device
from tpack.distribute.cross_tower_ops import check_destinations, devices_for, get_devices_from, validate_destinations
from tpack.distribute.values import Mirrored
from tpack.errors import ConfigError


def _variable(device: str) -> Any:
    with tf.device(device):
        return tf.Variable(1.0, use_resource=True)


def test_every_kind_of_destination_has_devices(graph: Any) -> None:
    value = per_device([np.float32(1), np.float32(2)])
    found = {
        "name": get_devices_from("/cpu:3"),
        "names": get_devices_from(["/cpu:1", "/device:CPU:0"]),
        "names in a tuple": get_devices_from(("/cpu:1",)),
        "name twice": get_devices_from(["/cpu:1", "/device:CPU:1"]),
        "variable": get_devices_from(_variable("/cpu:5")),
        "tensor": get_devices_from(value.get("/device:CPU:1")),
        "value": get_devices_from(value),
        "mirrored": get_devices_from(Mirrored({"/device:CPU:2": _variable("/cpu:2")})),
    }
    assert {kind: [int(name[-1]) for name in names] for kind, names in found.items()} == {
        "name": [3],
        "names": [1, 0],
        "names in a tuple": [1],
        "name twice": [1],
        "variable": [5],
        "tensor": [1],
        "value": [0, 1],
        "mirrored": [2],
    }
    assert {name[:-1] for names in found.values() for name in names} == {"/device:CPU:"}


def test_gpus_that_the_machine_lacks_are_cpu_devices(graph: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tpack.tower.devices.list_gpus", lambda: [])
    assert get_devices_from(["/gpu:0", "/gpu:2"]) == ["/device:CPU:0", "/device:CPU:2"]


def test_slices_are_where_their_values_are(graph: Any) -> None:
    with tf.device("/cpu:4"):
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.zeros([1], tf.int64))
    validate_destinations(slices)
    assert get_devices_from(slices) == ["/device:CPU:4"]


@pytest.mark.parametrize("empty", ["", [], (), [""]])
def test_an_empty_destination_is_refused(empty: Any) -> None:
    assert not check_destinations(empty)
    with pytest.raises(ConfigError, match="destinations can not be empty"):
        validate_destinations(empty)


def test_a_variable_without_a_device_is_refused(graph: Any) -> None:
    variable = _variable("")
    assert not check_destinations(variable)
    assert check_destinations(_variable("/cpu:1"))
    with pytest.raises(ConfigError, match="can not be empty.*it has no device, create it under tf.device"):
        validate_destinations(variable)


@pytest.mark.parametrize("other", [None, 3, [3], {"/cpu:0"}])
def test_other_kinds_are_refused(other: Any) -> None:
    with pytest.raises(ConfigError, match="destinations got .*: expected a device, a list of devices, a variable"):
        validate_destinations(other)


def test_a_variable_is_on_the_default_devices_or_those_of_something_else(graph: Any) -> None:
    mirrored = Mirrored({device: _variable(device) for device in ("/device:CPU:2", "/device:CPU:1")})
    plain = _variable("/cpu:5")
    assert devices_for(None, ["/device:CPU:1"]) == ["/device:CPU:1"]
    assert devices_for(mirrored, []) == ["/device:CPU:2", "/device:CPU:1"]
    assert devices_for(plain, []) == devices_for("/cpu:5", []) == devices_for(["cpu:5"], []) == ["/device:CPU:5"]
    with pytest.raises(ConfigError, match="destinations got 3: expected a device"):
        devices_for(3, [])
