"""Reduction over a real cluster: two processes that talk over the loopback device, each with two towers."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, per_device
from tests.helpers.tower_grads import dense_towers, random_towers, slices
from tpack.distribute.reducer_ops import MultiWorkerAllReduce
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.reduction.base import ReduceOp
from tpack.reduction.names import make_reducer
from tpack.reduction.spec import reducer_for_spec

ROOT = Path(__file__).parents[2]
DEVICES = [f"/job:worker/task:{task}/device:CPU:{i}" for task in range(2) for i in range(2)]
SHAPES = [(5, 3), (), (0,), (1000,), (7,)]
NAMES = [
    "round_robin/xring",
    "round_robin/rechd",
    "one_device/pscpu",
    "pscpu/pscpu",
    "psgpu/psgpu",
    "xring/one_device",
    "collective/round_robin",
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: Any) -> Iterator[str]:
    """The address of a cluster of two tasks with two CPU devices each."""
    log_path = tmp_path_factory.mktemp("cluster") / "stderr.txt"
    with contextlib.ExitStack() as stack:
        ports = [str(stack.enter_context(PortReservation()).port) for _ in range(2)]
        log = stack.enter_context(open(log_path, "w"))
        tasks = []
        for task in range(2):
            command = [sys.executable, "-m", "tests.helpers.cluster_task", str(task), "2", *ports]
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            tasks.append(process)
        targets = [process.stdout.readline().strip() for process in tasks]
        assert all(targets), log_path.read_text()
        yield targets[0]


def _run(session: Any, fetches: Any) -> tuple[Any, dict[str, str]]:
    """Run `fetches`; return their values and the full name of the device on which each operation was."""
    metadata = tf.RunMetadata()
    values = session.run(fetches, None, tf.RunOptions(output_partition_graphs=True), metadata)
    return values, {node.name: node.device for graph in metadata.partition_graphs for node in graph.node}


def _full_name(device: str) -> str:
    return device.replace("/task", "/replica:0/task")


def _check(reducer: Any, target: str, rng: Any, op: ReduceOp) -> None:
    values = random_towers(rng, 4, SHAPES)
    with tf.Graph().as_default() as graph, tf.Session(target, graph=graph) as session:
        grads = dense_towers(values, DEVICES)
        for k, tower in enumerate(grads):
            tower.append(slices([[float(k)]] * 2, [k, 0], DEVICES[k], rows=9))
        reduced = reducer.reduce(grads, op)
        session.run(tf.global_variables_initializer())
        got, placed = _run(session, reduced)
        again, _ = _run(session, reduced)
    for k in range(4):
        for n in range(len(SHAPES)):
            wanted = sum(tower[n] for tower in values) / op.divisor(4)
            np.testing.assert_allclose(got[k][n], wanted, rtol=1e-5, atol=1e-5)
            assert got[k][n].tobytes() == got[0][n].tobytes() == again[k][n].tobytes()
            assert placed[reduced[k][n].op.name] == _full_name(DEVICES[k])
        assert got[k][-1].indices.tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
        assert got[k][-1].values.ravel().tolist() == [i / op.divisor(4) for i in (0, 0, 1, 1, 2, 2, 3, 3)]
        assert placed[reduced[k][-1].values.op.name] == _full_name(DEVICES[k])


@pytest.mark.parametrize("name", NAMES)
def test_towers_of_two_processes_get_the_same_result(name: str, target: str, rng: Any) -> None:
    reducer = make_reducer(name, DEVICES)
    assert reducer.name == name
    for op in ReduceOp:
        _check(reducer, target, rng, op)


def test_a_spec_splits_the_tensors_of_a_cluster_by_size(target: str, rng: Any) -> None:
    spec = [("round_robin", 1, 28), ("pscpu/pscpu", 2, 60), ("round_robin/xring", 2, -1)]
    _check(reducer_for_spec(spec, DEVICES), target, rng, ReduceOp.MEAN)


@pytest.mark.parametrize(("devices", "numbers"), [(DEVICES, 2), (DEVICES[:3], [2, 1]), (DEVICES[1:], (1, 2))])
def test_cross_tower_operations_reduce_over_workers(devices: Any, numbers: Any, target: str, rng: Any) -> None:
    workers = ["/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"]
    ops = MultiWorkerAllReduce(workers, numbers, [("one_device", 1, 16), ("pscpu/pscpu", 2, -1)], num_packs=2)
    arrays = [rng.standard_normal((len(devices), size)).astype(np.float32) for size in (3, 30, 40)]
    destinations = [devices, devices, devices[2]]
    with tf.Graph().as_default() as graph, tf.Session(target, graph=graph) as session:
        values = [per_device(array, devices) for array in arrays]
        reduced = ops.batch_reduce(MEAN, list(zip(values, destinations, strict=True)))
        session.run(tf.global_variables_initializer())
        got = session.run([list(value.index.values()) for value in reduced])
    assert [value.devices for value in reduced] == [devices, devices, devices[2:3]]
    for array, copies in zip(arrays, got, strict=True):
        for copy in copies:
            np.testing.assert_allclose(copy, array.mean(axis=0), rtol=1e-5, atol=1e-5)
