"""Reduction on eight GPUs, built and not run: kernels, and what the busiest device gets and sends."""

from collections import Counter
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.gpu_graphs import busiest, copies_asked_for, copies_made, gpus, place_of, show_gpus, without_kernel
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices
from tpack.reduction.modes import reducer_for_mode
from tpack.tower.grads import ReduceOp

K, COUNT = 8, 4096
S = 4 * COUNT
# In and out of the busiest device, in bytes of S: the table of docs/reduction.md.
FORMULAS = {
    "one_device": (K - 1, K - 1),
    "cpu": (K, K),
    "xring": (2 * (K - 1) / K, 2 * (K - 1) / K),
    "rechd": (2 * (K - 1) / K, 2 * (K - 1) / K),
    "psgpu#8": (2 * (K - 1) / K, 2 * (K - 1) / K),
    "pscpu": (K, K),
}


def reduced(mode: str, devices: list[str], num_grads: int = 1) -> tf.Operation:
    """Build gradients and their reduction; return what runs it."""
    grads: list[list[Any]] = []
    for k, device in enumerate(devices):
        with tf.device(device):
            shapes = [[COUNT]] * num_grads
            variables = [tf.get_variable(f"v{k}_{n}", shape, use_resource=True) for n, shape in enumerate(shapes)]
            grads.append([variable.read_value() for variable in variables])
    results = reducer_for_mode(mode, devices).reducer.reduce(grads, ReduceOp.MEAN)
    for device, tower in zip(devices, results, strict=True):
        assert {place_of(result.op) for result in tower} == {device.rpartition("device:")[2]}
    return tf.group(*(result for tower in results for result in tower))


@pytest.fixture(autouse=True)
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, names of GPUs would stand for CPU devices."""
    show_gpus(monkeypatch)


@pytest.mark.parametrize("mode", FORMULAS)
def test_the_busiest_device_moves_what_the_table_says(mode: str) -> None:
    with tf.Graph().as_default() as graph:
        copies = copies_asked_for(reduced(mode, gpus()), COUNT // K)
        assert without_kernel(graph.get_operations()) == []
    assert busiest(copies) == tuple(factor * S for factor in FORMULAS[mode])
    # A small part may go by a processor, where sums of all are asked for there.
    assert any("CPU" in end for way in copies for end in way) is (mode in ("cpu", "pscpu"))


def test_devices_take_turns_with_several_gradients() -> None:
    with tf.Graph().as_default():
        assert busiest(copies_asked_for(reduced("round_robin", gpus(), K), COUNT)) == (2 * (K - 1) * S, 2 * (K - 1) * S)


def test_halves_meet_by_few_copies_between_them() -> None:
    with tf.Graph().as_default() as graph:
        copies = copies_asked_for(reduced("hierarchical", gpus()), COUNT)
        assert without_kernel(graph.get_operations()) == []
    across = {way: size for way, size in copies.items() if (int(way[0][-1]) < 4) is not (int(way[1][-1]) < 4)}
    # Three come to the leader of a half and three leave it, and the leaders send one another a sum.
    assert across == {("GPU:0", "GPU:4"): S, ("GPU:4", "GPU:0"): S}
    assert sum(copies.values()) == (2 * (3 + 3) + 2) * S


@pytest.mark.parametrize(("mode", "op_type"), [("nccl", "NcclAllReduce"), ("collective", "CollectiveReduce")])
def test_libraries_get_one_call_on_each_gpu(mode: str, op_type: str) -> None:
    with tf.Graph().as_default() as graph:
        target = reduced(mode, gpus(), 2)
        assert copies_asked_for(target, COUNT) == Counter()
        assert without_kernel(graph.get_operations()) == []
        calls = [op for op in graph.get_operations() if op.type == op_type and "check" not in op.name]
    assert Counter(place_of(op) for op in calls) == dict.fromkeys((f"GPU:{k}" for k in range(K)), 2)
    if mode == "nccl":
        assert {op.get_attr("num_devices") for op in calls} == {K}
        groups = Counter(op.get_attr("shared_name") for op in calls)
        assert sorted(groups.values()) == [K, K]
    else:
        assert {op.get_attr("group_size") for op in calls} == {K}
        assert sorted(Counter(op.get_attr("instance_key") for op in calls).values()) == [K, K]


@pytest.mark.parametrize("mode", ["one_device", "hierarchical", "xring", "rechd", "psgpu#8", "adasum"])
def test_what_is_counted_is_what_tensorflow_copies(mode: str) -> None:
    """The same on logical devices, where a run has partitions to look at."""
    with tf.Graph().as_default() as graph:
        target = reduced(mode, cpu_devices(K))
        with cpu_session(graph) as session:
            session.run(tf.global_variables_initializer())
            assert copies_made(session, target, COUNT // K) == copies_asked_for(target, COUNT // K)
