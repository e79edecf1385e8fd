import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ReductionError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.autotune import topology
from tpack.reduction.autotune.measure import Measurement
from tpack.reduction.autotune.topology import DGX1_LINKS, choose_the_best
from tpack.tower import devices as tower_devices


def gpus(num):
    return [f"/device:GPU:{k}" for k in range(num)]


@pytest.fixture
def machine(monkeypatch):
    """Pretend that the machine has linked GPUs, and that NCCL does there what is said."""

    def pretend(links, nccl_error="", hidden=()):
        asked = []

        def measure(name, workload, options):
            asked.append((name, workload.devices, options.session_config))
            return Measurement(name, (0.1,), error=nccl_error)

        visible = {name: own for name, own in zip(gpus(len(links)), links, strict=True) if name not in hidden}
        monkeypatch.setattr(tower_devices, "list_gpus", lambda: gpus(len(links)))
        monkeypatch.setattr(topology, "visible_links", lambda config: visible)
        monkeypatch.setattr(topology, "measure_candidate", measure)
        return asked

    return pretend


def test_gpus_of_a_dgx1_are_reduced_in_two_groups(machine):
    asked = machine(DGX1_LINKS)
    reducer, reason = choose_the_best(gpus(8))
    assert reducer.name == "packed_hierarchical"
    assert reducer._num_packs == 8
    assert "linked as in a DGX-1" in reason
    assert asked == []


@pytest.mark.parametrize("num", [2, 3, 8])
def test_other_gpus_are_reduced_by_nccl_after_it_has_summed_correctly(machine, num):
    asked = machine([frozenset()] * num)
    config = tf.ConfigProto()
    reducer, reason = choose_the_best(gpus(num), config)
    assert reducer.name == "packed_nccl"
    assert reducer._num_packs == 1
    assert "summed known numbers correctly" in reason
    assert asked == [("nccl", tuple(gpus(num)), config)]


def test_four_gpus_of_a_dgx1_are_reduced_by_nccl_too(machine):
    machine(DGX1_LINKS)
    assert choose_the_best(gpus(4)).reducer.name == "packed_nccl"


def test_without_safe_nccl_gpus_copy(machine):
    machine([frozenset()] * 4, nccl_error="killed after 120 s")
    reducer, reason = choose_the_best(gpus(4))
    assert type(reducer) is RoundRobinReducer
    assert "NCCL is not safe here (killed after 120 s); the links of 4 GPU(s)" in reason


def test_gpus_that_a_session_does_not_see_copy(machine):
    asked = machine([frozenset()] * 8, hidden=["/device:GPU:5"])
    reducer, reason = choose_the_best(gpus(8))
    assert type(reducer) is HierarchicalReducer
    assert reason.startswith("/device:GPU:5 cannot be seen from here; eight GPUs")
    assert asked == []


def test_one_gpu_and_cpu_devices_need_no_look_at_links(machine):
    asked = machine([frozenset()] * 2)
    assert type(choose_the_best(gpus(1)).reducer) is RoundRobinReducer
    assert type(choose_the_best(cpu_devices(8)).reducer) is RoundRobinReducer
    assert type(choose_the_best([*gpus(1), "/cpu:0"]).reducer) is RoundRobinReducer
    assert asked == []


def test_on_this_machine_gpu_names_become_what_there_is():
    if not tower_devices.list_gpus():
        assert "copies between CPU devices" in choose_the_best(gpus(2)).reason
    with pytest.raises(ReductionError, match="a device of its own"):
        choose_the_best([])
