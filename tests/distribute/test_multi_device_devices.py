from typing import Any

import pytest

from tpack.distribute.multi_device import different_devices, worker_devices_of
from tpack.errors import ConfigError


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: Any) -> None:
    """Pretend that the machine has no GPU, as most machines of tests have none."""
    monkeypatch.setattr("tpack.tower.devices.list_gpus", lambda: [])


def test_a_number_of_gpus_is_as_many_towers() -> None:
    assert worker_devices_of(0, None) == ["/device:CPU:0"]
    assert worker_devices_of(2, None) == ["/device:CPU:0", "/device:CPU:1"]


def test_devices_are_given_by_name() -> None:
    assert worker_devices_of(0, ["/cpu:3", "/gpu:1"]) == ["/device:CPU:3", "/device:CPU:1"]


def test_a_gpu_beside_the_cpu_is_another_device() -> None:
    assert different_devices(["/device:GPU:0", "/device:CPU:0"]) == ["/device:CPU:1", "/device:CPU:0"]


@pytest.mark.parametrize("devices", ["/cpu:0", 5, ["/cpu:0", "/device:CPU:0"], ["/gpu:0", "/device:GPU:0"]])
def test_devices_are_different_ones(devices: Any) -> None:
    with pytest.raises(ConfigError, match="expected a list of one or more different devices"):
        different_devices(devices)


@pytest.mark.parametrize(
    ("devices", "message"), [([], "got devices with 0 entries"), (["/cpu:0", 1], r"got devices\[1\]=1: expected a str")]
)
def test_devices_are_a_list_of_names(devices: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        different_devices(devices)


def test_one_of_both_is_given() -> None:
    with pytest.raises(ConfigError, match="got devices=.* and num_gpus_per_worker=.*: expected one of them"):
        worker_devices_of(2, ["/cpu:0"])
    with pytest.raises(ConfigError, match="got num_gpus_per_worker=-1: expected an integer of at least 0"):
        worker_devices_of(-1, None)
