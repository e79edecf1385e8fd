"""What the reductions of `reduce.py` are compared with: one baseline, measured in this process.

It is spoken to as `tpack.reduction.autotune.worker` is: a request on standard input, a row on standard output.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.distribute.values import PerReplica

from tpack.reduction.autotune.measure import Measurement, Workload
from tpack.reduction.autotune.worker import measure_here
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.sums import on_device_of

FLOOR = "memory floor"
MIRRORED = "MirroredStrategy"
CROSS_DEVICE_OPS = {
    "ReductionToOneDevice": tensorflow.distribute.ReductionToOneDevice,
    "HierarchicalCopyAllReduce": tensorflow.distribute.HierarchicalCopyAllReduce,
}
BASELINES = (FLOOR, *CROSS_DEVICE_OPS, MIRRORED)

BLOCK = 32 * 1024
"""Elements that are added at a time: the block of the sum stays in the cache."""
WARMUP_STEPS = 2


class CrossDeviceReducer(Reducer):
    """Reduces with one of TensorFlow's cross-device operations."""

    name = "cross_device"

    def __init__(self, operations):
        self._operations = operations

    def reduce_dense(self, columns, op):
        wanted = tensorflow.distribute.ReduceOp.MEAN if op is ReduceOp.MEAN else tensorflow.distribute.ReduceOp.SUM
        values = [PerReplica(list(column)) for column in columns]
        reduced = self._operations.batch_reduce(wanted, [(value, value) for value in values])
        return [self._placed(value.values, column) for value, column in zip(reduced, columns, strict=True)]

    @staticmethod
    def _placed(values, column):
        """Return the results in the order of the towers; they are where they are, nothing is moved."""
        results = []
        for value, member in zip(values, column, strict=True):
            with on_device_of(member):
                results.append(tf.identity(value))
        return results


def memory_floor(workload, steps, rounds):
    """Read K arrays and write one, with all cores: less is not possible for any reduction."""
    size = workload.size_bytes // 4
    towers = [np.full(size, k, np.float32) for k in range(len(workload.devices))]
    total = np.zeros(size, np.float32)
    threads = len(os.sched_getaffinity(0))
    bounds = np.linspace(0, size, threads + 1).astype(int)

    def add_up(first, last):
        for start in range(first, last, BLOCK):
            block = slice(start, min(start + BLOCK, last))
            np.add(towers[0][block], towers[1][block], out=total[block])
            for tower in towers[2:]:
                total[block] += tower[block]

    with ThreadPoolExecutor(threads) as pool:
        return time_rounds(lambda: list(pool.map(add_up, bounds[:-1], bounds[1:])), steps, rounds)


def mirrored_strategy(workload, steps, rounds):
    """Return the row of the strategy's default way to reduce, in a function of TensorFlow 2."""
    devices = [f"CPU:{k}" for k in range(len(workload.devices))]
    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    logical = [tensorflow.config.LogicalDeviceConfiguration() for _ in devices]
    tensorflow.config.set_logical_device_configuration(cpu, logical)
    strategy = tensorflow.distribute.MirroredStrategy(devices)
    with strategy.scope():
        replicas = [tensorflow.Variable(tensorflow.zeros(shape)) for shape in workload.shapes]
    grads = []
    for n, shape in enumerate(workload.shapes):
        own = []
        for k, device in enumerate(devices):
            with tensorflow.device(device):
                own.append(tensorflow.Variable(tensorflow.fill(shape, float(k + 1 + n % 3))))
        grads.append(own)

    def merge(strategy, values):
        pairs = list(zip(values, replicas, strict=True))
        reduced = strategy.extended.batch_reduce_to(tensorflow.distribute.ReduceOp.MEAN, pairs)
        for replica, value in zip(replicas, reduced, strict=True):
            strategy.extended.update(replica, lambda variable, grad: variable.assign_sub(grad), (value,), group=True)

    def in_replica():
        context = tensorflow.distribute.get_replica_context()
        k = int(tensorflow.get_static_value(tensorflow.convert_to_tensor(context.replica_id_in_sync_group)))
        context.merge_call(merge, args=([own[k].read_value() for own in grads],))

    @tensorflow.function
    def step():
        strategy.run(in_replica)

    start = time.perf_counter()
    graph = step.get_concrete_function().graph
    build_secs = time.perf_counter() - start
    step()
    for n, replica in enumerate(replicas):
        wanted = -(n % 3 + (len(devices) + 1) / 2)
        assert all((copy.numpy() == wanted).all() for copy in strategy.experimental_local_results(replica)), n
    return Measurement(MIRRORED, time_rounds(step, steps, rounds), len(graph.get_operations()), build_secs)


def time_rounds(function, steps, rounds):
    """Return the seconds of a step in each round."""
    for _ in range(WARMUP_STEPS):
        function()
    secs = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(steps):
            function()
        secs.append((time.perf_counter() - start) / steps)
    return tuple(secs)


def answer(request):
    """Return the row that a request asks for."""
    name, steps, rounds = request["candidate"], request["steps"], request["rounds"]
    workload = Workload.from_json(request["workload"])
    if name == FLOOR:
        return Measurement(FLOOR, memory_floor(workload, steps, rounds))
    if name == MIRRORED:
        return mirrored_strategy(workload, steps, rounds)
    # These operations compare the names of devices as text, and want them in full.
    full = [f"/job:localhost/replica:0/task:0{device}" for device in workload.devices]
    workload = Workload(tuple(full), workload.shapes, workload.dtypes)
    return measure_here(name, CrossDeviceReducer(CROSS_DEVICE_OPS[name]()), workload, steps=steps, rounds=rounds)


if __name__ == "__main__":
    print("\n" + json.dumps(answer(json.load(sys.stdin)).as_json()))
