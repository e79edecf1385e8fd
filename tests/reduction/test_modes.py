from typing import Any

import pytest

from tests.helpers.log_lines import captured_log
from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError, ReductionError
from tpack.reduction import modes
from tpack.reduction.algorithms.adasum import AdasumReducer
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer, HierarchicalReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer
from tpack.reduction.autotune.autotune import AutoReducer
from tpack.reduction.modes import REDUCTION_MODES, reducer_for_mode
from tpack.reduction.spec import AllReduceSpec
from tpack.reduction.wrappers.splitting import SplitBySizeReducer


def _gpus(num: int) -> list[str]:
    return [f"/device:GPU:{k}" for k in range(num)]


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("cpu", OneDeviceReducer),
        ("gpu", RoundRobinReducer),
        ("collective", CollectiveReducer),
        ("hierarchical", HierarchicalReducer),
        ("one_device", OneDeviceReducer),
        ("round_robin", RoundRobinReducer),
        ("auto", AutoReducer),
        ("xring", RingReducer),
        ("rechd", HalvingDoublingReducer),
        ("pscpu", CpuShuffleReducer),
        ("psgpu", ShuffleReducer),
        ("adasum", AdasumReducer),
    ],
)
def test_each_mode_has_its_reducer(mode: str, kind: type) -> None:
    assert mode in REDUCTION_MODES
    for num_towers in (1, 4):
        reducer, reason = reducer_for_mode(mode, cpu_devices(num_towers))
        assert type(reducer) is kind
        assert mode in reason


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("nccl", RoundRobinReducer),
        (("nccl",), RoundRobinReducer),
        ("nccl/xring", CompositeReducer),
        ("nccl#2:1024:xring", SplitBySizeReducer),
    ],
)
def test_without_gpus_nccl_stands_for_copies_and_one_line_says_so(mode: Any, kind: type) -> None:
    with captured_log() as lines:
        reducer, _ = reducer_for_mode(mode, cpu_devices(4))
    assert type(reducer) is kind
    assert "nccl" not in reducer.name
    (line,) = lines
    assert f"Mode {mode!r} needs GPUs for NCCL, and there are none: towers on CPU devices reduce by copies" in line


def test_with_gpus_nccl_is_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(reducer_for_mode("nccl", _gpus(2)).reducer) is NcclReducer
    monkeypatch.setattr(modes, "list_gpus", lambda: ["/device:GPU:0"])
    assert type(reducer_for_mode("nccl", cpu_devices(2)).reducer) is NcclReducer


@pytest.mark.parametrize(
    ("device", "owner"),
    [("/device:GPU:3", "/device:CPU:0"), ("/job:worker/task:1/device:GPU:3", "/job:worker/task:1/device:CPU:0")],
)
def test_mode_cpu_sums_on_the_first_cpu_of_the_towers_machine(device: str, owner: str) -> None:
    reducer = reducer_for_mode("cpu", [device]).reducer
    assert isinstance(reducer, OneDeviceReducer)
    assert reducer._devices == [owner]


@pytest.mark.parametrize(
    ("devices", "kind", "why"),
    [
        (cpu_devices(8), RoundRobinReducer, "CPU devices share memory"),
        (cpu_devices(1), RoundRobinReducer, "CPU devices share memory"),
        (_gpus(2), RoundRobinReducer, r"links of 2 GPU"),
        ([*_gpus(7), "/device:CPU:0"], RoundRobinReducer, "CPU devices"),
    ],
)
def test_the_default_goes_by_the_devices(devices: list[str], kind: type, why: str) -> None:
    reducer, reason = reducer_for_mode(None, devices)
    assert type(reducer) is kind
    assert why in reason


def test_the_default_on_eight_gpus_is_hierarchical() -> None:
    reducer, reason = reducer_for_mode(None, [f"/job:worker/task:1{gpu}" for gpu in _gpus(8)])
    assert type(reducer) is HierarchicalReducer
    assert "two groups of four" in reason


def test_a_reducer_is_taken_as_it_is() -> None:
    own = CollectiveReducer("ring")
    reducer, reason = reducer_for_mode(own, cpu_devices(2))
    assert reducer is own
    assert "collective was given" in reason


def test_unknown_modes_and_numbers_are_refused() -> None:
    with pytest.raises(
        ConfigError,
        match="reducer_for_mode got mode='NCCL': expected one of auto, cpu, gpu, adasum, one_device, .*, xring, ",
    ):
        reducer_for_mode("NCCL", cpu_devices(2))
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        reducer_for_mode("hierarchical", cpu_devices(3))


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("one_device/xring", CompositeReducer),
        ("xring#2", RingReducer),
        ("one_device:1024:xring#2", SplitBySizeReducer),
        (("xring", 2), RingReducer),
        (AllReduceSpec("rechd"), HalvingDoublingReducer),
        ([("one_device", 1, 1024), ("rechd", 2, -1)], SplitBySizeReducer),
    ],
)
def test_an_all_reduce_spec_is_a_mode(mode: object, kind: type) -> None:
    reducer, reason = reducer_for_mode(mode, cpu_devices(4))
    assert type(reducer) is kind
    assert repr(mode) in reason


def test_a_spec_that_cannot_be_read_says_where() -> None:
    with pytest.raises(ConfigError, match="entry 1 of the all-reduce spec"):
        reducer_for_mode("xring:1024:sring", cpu_devices(2))


def test_a_mode_for_no_devices_is_refused() -> None:
    with pytest.raises(ConfigError, match="reducer_for_mode got devices with 0 entries"):
        reducer_for_mode("cpu", [])
