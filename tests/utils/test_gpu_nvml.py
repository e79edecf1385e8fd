"""NVIDIA's management library behind one door: the numbers pass through, and its errors are ours."""

import sys

import pytest

from tests.helpers.fake_nvml import FakeNVML
from tpack.errors import DependencyError, DeviceError
from tpack.utils.gpu import NVMLContext, visible_gpu_names


def test_numbers_of_each_gpu_are_told(nvml):
    with NVMLContext() as context:
        assert context.num_devices() == 2
        first, second = context.devices()
        assert [first.name(), second.name()] == ["Old 1", "New 2"]
        assert first.uuid() == "GPU-aaaa-1"
        assert second.memory() == {"total": 200, "free": 150, "used": 50}
        assert first.utilization() == {"gpu": 70, "memory": 20}


def test_the_library_is_closed_with_the_block(nvml):
    with NVMLContext() as context:
        assert nvml.num_open == 1
    assert nvml.num_open == 0
    with pytest.raises(DeviceError, match="NVMLContext is not open"):
        context.devices()
    with pytest.raises(RuntimeError, match="mine"), NVMLContext():
        raise RuntimeError("mine")
    assert nvml.num_open == 0


def test_what_a_gpu_does_not_tell_is_a_device_error(nvml):
    with NVMLContext() as context:
        with pytest.raises(DeviceError, match="does not tell its utilization: Not Supported"):
            context.device(1).utilization()
        with pytest.raises(DeviceError, match="there is no GPU 2: this machine has 2"):
            context.device(2)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["Old 1", "New 2"]),
        ("", []),
        ("-1", []),
        ("1,0", ["New 2", "Old 1"]),
        (" 1 ", ["New 2"]),
        ("0,-1,1", ["Old 1"]),
        ("0,7,1", ["Old 1"]),
        ("GPU-ab", ["New 2"]),
        ("GPU-a,1", []),
    ],
)
def test_visible_devices_are_those_of_the_environment(nvml, monkeypatch, value, names):
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with NVMLContext() as context:
        assert [gpu.name() for gpu in context.visible_devices()] == names


def test_visible_gpu_names_stop_where_cuda_stops(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpu_names() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-x,,3")
    assert visible_gpu_names() == ["2", "GPU-x"]


def test_no_driver_and_no_package_are_different_errors(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML([], driver=False))
    with pytest.raises(DeviceError, match="cannot be used on this machine: Driver Not Loaded"), NVMLContext():
        pass
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DependencyError, match=r"'pynvml'.*tpack\[gpu\]"), NVMLContext():
        pass


def test_the_real_library_counts_or_says_why_not():
    pytest.importorskip("pynvml")
    try:
        with NVMLContext() as context:
            assert len(context.devices()) == context.num_devices()
    except DeviceError as error:
        assert "management library" in str(error)
