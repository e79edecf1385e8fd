"""Values of several devices with known numbers, and checks of where and what came out, for cross-tower operations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices, slices, source
from tpack.distribute.values import DistributedValues, PerDevice

SUM, MEAN = tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN


def per_device(values: Sequence[Any], devices: Sequence[str] | None = None) -> PerDevice:
    """Return a value that holds array k on device k."""
    devices = devices or cpu_devices(len(values))
    return PerDevice({device: source(value, device) for value, device in zip(values, devices, strict=True)})


def per_device_slices(num_devices: int, *, rows: int = 5) -> PerDevice:
    """Return a value of slices: on device k the rows k and 0, holding k."""
    devices = cpu_devices(num_devices)
    return PerDevice({d: slices([[float(k)]] * 2, [k, 0], d, rows=rows) for k, d in enumerate(devices)})


def parts(value: DistributedValues) -> list[Any]:
    """Return what a value holds for each of its devices."""
    return [value.get(device) for device in value.devices]


def start(session: Any) -> Any:
    """Give all variables their first values."""
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def assert_mirrored(session: Any, value: DistributedValues, wanted: Any, devices: Sequence[str]) -> None:
    """Check that a value has the same numbers on exactly these devices."""
    assert value.devices == list(devices)
    for device, tensor in zip(devices, parts(value), strict=True):
        assert tensor.device == device
    got = session.run(parts(value))
    for each in got:
        np.testing.assert_allclose(each, wanted, rtol=1e-6, atol=1e-6)
        assert each.tobytes() == got[0].tobytes()


def dense_of(value: Any, rows: int = 5) -> np.ndarray:
    """Return the dense array that slices stand for."""
    dense = np.zeros((rows, *value.values.shape[1:]), value.values.dtype)
    np.add.at(dense, value.indices, value.values)
    return dense
