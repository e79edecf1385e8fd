"""The devices of towers, of their variables and of their results."""

import pytest

from tests.helpers.log_lines import captured_log
from tpack.errors import DeviceError
from tpack.estimator import replicated
from tpack.estimator.replicated import VariablePlacement, replication_over
from tpack.tower import devices


@pytest.fixture
def gpus(monkeypatch):
    def have(number):
        names = [f"/device:GPU:{k}" for k in range(number)]
        monkeypatch.setattr(devices, "list_gpus", lambda: names)
        monkeypatch.setattr(replicated, "list_gpus", lambda: names)

    return have


CPU = "/device:CPU:0"


def test_all_gpus_or_the_cpu_without_devices(gpus):
    for number, found in [(0, (CPU,)), (2, ("/device:GPU:0", "/device:GPU:1"))]:
        gpus(number)
        assert replication_over(None).devices == found


def test_variables_are_on_the_only_gpu_or_on_the_cpu(gpus):
    gpus(2)
    for names, wanted in [(["/gpu:1"], "/device:GPU:1"), (["/gpu:0", "/gpu:1"], CPU), (["/cpu:0"], CPU)]:
        plan = replication_over(names)
        assert (plan.consolidation_device, plan.variable_devices) == (wanted, (wanted,))
        assert plan.num_towers == len(names)


def test_round_robin_is_over_all_devices(gpus):
    gpus(0)
    plan = replication_over(["/gpu:0", "/gpu:1"], VariablePlacement.ROUND_ROBIN)
    assert plan.variable_devices == plan.devices == (CPU, "/device:CPU:1")
    assert plan.consolidation_device == CPU
    assert [plan.variable_turns().take() for _ in range(2)] == [CPU, CPU]
    turns = plan.variable_turns()
    assert [turns.take() for _ in range(3)] == [CPU, "/device:CPU:1", CPU]


def test_the_log_says_where(gpus):
    gpus(2)
    with captured_log() as lines:
        replication_over(["/gpu:0", "/gpu:1"])
    assert "over /device:GPU:0, /device:GPU:1, with variables on /device:CPU:0" in "".join(lines)


def test_a_gpu_that_is_not_there_is_refused(gpus):
    gpus(1)
    with pytest.raises(DeviceError, match="GPU 3"):
        replication_over(["/gpu:3"])
