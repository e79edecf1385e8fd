"""Checks of devices: what they say of right devices and of faulty ones, with GPUs that are not there."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.gpu_graphs import show_gpus
from tpack.errors import DeviceError
from tpack.selftest import devices
from tpack.selftest.devices import (
    HOST,
    CopyRates,
    check_arithmetic,
    check_copies,
    check_host_copies,
    check_memory,
    compute_capability,
    find_devices,
)
from tpack.selftest.runner import Machine, Skipped, Wrong

CPUS = Machine("CPU", tuple(f"/device:CPU:{k}" for k in range(3)))
GPUS = Machine("GPU", CPUS.devices)


def test_logical_devices_take_the_place_of_gpus():
    found = find_devices(None)
    assert found.figures["devices"] == [f"/device:CPU:{k}" for k in range(4)]
    assert len(find_devices(2).figures["devices"]) == 2
    assert "no GPU" in found.text
    assert "TensorFlow" in found.figures["environment"]


def test_gpus_that_tensorflow_does_not_see_are_wrong(monkeypatch):
    monkeypatch.setattr(devices, "get_num_gpu", lambda: 8)
    with pytest.raises(Wrong, match=r"lists 8 GPU\(s\), TensorFlow sees 0: training would be on none") as caught:
        find_devices(None)
    assert "tensorflow[and-cuda]" in caught.value.advice
    assert caught.value.figures["kind"] == "CPU"


def test_more_gpus_than_there_are_is_wrong(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: ["/device:GPU:0", "/device:GPU:1"])
    assert find_devices(None).figures["devices"] == ["/device:GPU:0", "/device:GPU:1"]
    with pytest.raises(Wrong, match="3 devices were asked for, and there are 2"):
        find_devices(3)


def test_the_lowest_compute_capability_counts(monkeypatch):
    show_gpus(monkeypatch, 2)
    details = iter([{"compute_capability": (9, 0)}, {"compute_capability": (7, 5)}])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: next(details))
    assert compute_capability() == (7, 5)


def test_right_devices_compute_and_copy_right():
    assert check_arithmetic(CPUS).figures["off_by"] < 0.01
    assert check_copies(CPUS).figures == {"gigabytes_per_sec": None}
    for check in (check_memory, check_host_copies):
        with pytest.raises(Skipped, match="logical CPU devices"):
            check(CPUS)
    with pytest.raises(Skipped, match="one device"):
        check_copies(Machine("CPU", HOST.split()))


@pytest.mark.parametrize("fault", [1.0, float("nan")])
def test_the_device_and_the_rounds_of_a_wrong_number_are_named(fault):
    right = {"convolution": np.zeros([2, 2])}
    rounds = [[{"convolution": np.zeros([2, 2])} for _ in range(3)] for _ in range(5)]
    rounds[3][1]["convolution"][1, 0] = fault
    with pytest.raises(Wrong, match="CPU:1 computes wrong: its convolution is off by up to .* in 1 of 5 rounds"):
        devices._compare(CPUS, rounds, right)


def test_copies_that_arrive_changed_are_named():
    with pytest.raises(Wrong, match="copies arrive changed: a to b, b to a$") as caught:
        CopyRates(CPUS)._refuse_wrong(
            SimpleNamespace(run=lambda checks: checks), {("a", "b"): False, ("a", "c"): True, ("b", "a"): False}
        )
    assert "IOMMU" in caught.value.advice


def test_rates_are_those_of_pairs_and_slow_ones_have_advice(monkeypatch):
    # The sizes of CPUs, on the way of GPUs.
    monkeypatch.setitem(devices._COPY_FLOATS, "GPU", 1 << 10)
    table = check_copies(GPUS).figures["gigabytes_per_sec"]
    assert [[rate is None for rate in row] for row in table] == np.eye(3, dtype=bool).tolist()
    rates = CopyRates(GPUS, ["/device:CPU:3"]).table(["/device:CPU:3"], GPUS.devices)
    assert len(rates) == 1
    assert all(rate > 0 for rate in rates[0])
    found = devices._rates_found(GPUS, [[None, 100.0, 20.0], [100.0, None, 90.0], [100.0, 100.0, None]])
    assert found.text == "20.0 to 100.0 GB/s"
    assert "The pairs 0 to 2 have less" in found.advice


@pytest.mark.parametrize(("used", "is_right"), [((1, 2), True), ((1, 99), False)])
def test_memory_that_does_not_grow_is_wrong(monkeypatch, used, is_right):
    readings = iter(used)

    class Context:
        def __enter__(self):
            gpu = SimpleNamespace(memory=lambda: {"total": 100 << 30, "used": next(readings) << 30})
            return SimpleNamespace(visible_devices=lambda: [gpu])

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(devices, "NVMLContext", Context)
    if is_right:
        assert check_memory(GPUS).text == "1024 MiB of 100 GiB at first"
    else:
        with pytest.raises(Wrong, match="98% of a GPU's memory") as caught:
            check_memory(GPUS)
        assert "TF_FORCE_GPU_ALLOW_GROWTH" in caught.value.advice


def test_memory_that_is_not_known_is_skipped(monkeypatch):
    class Context:
        def __enter__(self):
            raise DeviceError("no driver")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(devices, "NVMLContext", Context)
    with pytest.raises(Skipped, match="no driver"):
        check_memory(GPUS)
