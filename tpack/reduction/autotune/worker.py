"""The process that measures one candidate.

In a process that has already trained, earlier page faults, pinned memory and threads distort timings, so each candidate
has a fresh process. The request is JSON on standard input; the row is the last line of standard output. Errors inside
become part of the row; the caller reports the death of the process.

    python -m tpack.reduction.autotune.worker < request.json

The timed step reduces known gradients in each tower and applies them to K replicas. Only the reduction differs between
candidates; applying is included because the cache location of a result and the time of the first one matter. Each sum
is compared with the right one before timing.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import make_callable
from tpack.errors import ReductionError, TpackError
from tpack.graph_copy import op_kinds
from tpack.reduction.autotune.candidates import is_of_user, make_candidate
from tpack.reduction.autotune.measure import DTypeLike, Measurement, Workload, count_traffic, ring_cost
from tpack.reduction.base import Reducer
from tpack.tower.devices import check_session_devices, provide_cpu_devices
from tpack.tower.grads import Gradient, ReduceOp

_WARMUP_STEPS = 2
# They move data without edges in the graph, in sequence: round a ring, as TensorFlow does between CPUs.


def answer(request: Mapping[str, Any]) -> Measurement:
    """Measure the candidate of a request; an error that it raises is in the row.

    Args:
        request: ``candidate``, ``workload`` (see `Workload.as_json`), ``steps``, ``rounds``, and ``session_config``,
            a serialized ``ConfigProto`` in hexadecimal digits.
    """
    name = request["candidate"]
    workload = Workload.from_json(request["workload"])
    config = tf.ConfigProto.FromString(bytes.fromhex(request["session_config"]))
    try:
        reducer = make_candidate(name, workload.devices)
        return measure_here(
            name, reducer, workload, steps=request["steps"], rounds=request["rounds"], session_config=config
        )
    except (TpackError, tf.errors.OpError) as error:
        return Measurement(name, error=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def main() -> None:
    """Answer the request on standard input."""
    row = answer(json.load(sys.stdin))
    sys.stdout.write("\n" + json.dumps(row.as_json()) + "\n")


def measure_here(
    name: str,
    reducer: Reducer,
    workload: Workload,
    *,
    steps: int,
    rounds: int,
    session_config: tf.ConfigProto | None = None,
) -> Measurement:
    """Build and time the step in this process, and return the row.

    Args:
        name: the name of the row.
        reducer: the reducer to measure.
        workload: the towers and their gradients.
        steps: the number of steps per round.
        rounds: the number of rounds.
        session_config: a ``ConfigProto``. The number of CPU devices is raised to the need of the towers. Graph rewrites
            follow its ``rewrite_options``; without them they are off.

    Raises:
        ReductionError: The reducer does not support these gradients, or returned a wrong result.
        DeviceError: The session lacks a tower's device.
    """
    op = ReduceOp.SUM if workload.has_integers else ReduceOp.MEAN
    with tf.Graph().as_default() as graph:
        grads = _gradients(workload)
        before = len(graph.get_operations())
        start = time.perf_counter()
        reduced = reducer.reduce(grads, op)
        build_secs = time.perf_counter() - start
        added = graph.get_operations()[before:]
        traffic = _traffic(grads, reduced, added)
        replicas, train_op = _apply(reduced, workload)
        with tf.Session(config=_config(session_config, graph)) as session:
            check_session_devices(session, graph)
            session.run(tf.global_variables_initializer())
            session.run(train_op)
            deviation = _deviation_of(session, replicas, op)
            if deviation and not is_of_user(name):
                raise ReductionError(f"a wrong result: a gradient is off by {deviation:.0%}")
            secs = _time_rounds(make_callable(session, targets=[train_op]), steps, rounds)
    return Measurement(name, secs, len(added), build_secs, *traffic, deviation=deviation)


def _gradients(workload: Workload) -> list[list[tf.Tensor]]:
    """Return K x N gradients, each read from a variable to prevent constant folding."""
    towers = []
    for k, device in enumerate(workload.devices):
        with tf.device(device):
            towers.append(
                [
                    _variable(shape, dtype, _value(k, n)).read_value()
                    for n, (shape, dtype) in enumerate(zip(workload.shapes, workload.dtypes, strict=True))
                ]
            )
    return towers


def _apply(reduced: list[list[Gradient]], workload: Workload) -> tuple[list[list[tf.Variable]], tf.Operation]:
    """Return K x N replicas, and the op for a step of gradient descent with rate 1 in each."""
    replicas, updates = [], []
    for tower, device in zip(reduced, workload.devices, strict=True):
        with tf.device(device):
            own = [_variable(shape, grad.dtype, 0) for shape, grad in zip(workload.shapes, tower, strict=True)]
            updates += [replica.assign_sub(grad, read_value=False) for replica, grad in zip(own, tower, strict=True)]
        replicas.append(own)
    return replicas, tf.group(*updates, name="train_op")


def _traffic(
    grads: list[list[tf.Tensor]], reduced: list[list[Gradient]], added: list[tf.Operation]
) -> tuple[float, int]:
    """Return the bytes that the busiest device moves, and the number of dependent transfers."""
    counted = count_traffic(grads, reduced)
    size_bytes, hops = float(counted.bytes_moved), counted.chain_length
    num_towers = len(grads)
    messages = [operation.inputs[0] for operation in added if operation.type in op_kinds.COLLECTIVES]
    for message in messages[::num_towers]:
        cost = ring_cost(num_towers, message.shape.num_elements() * message.dtype.size)
        size_bytes, hops = size_bytes + cost.bytes_moved, hops + cost.latency_steps
    return size_bytes, hops


def _variable(shape: Sequence[int], dtype: DTypeLike, value: int) -> tf.Variable:
    initial = tf.fill(tf.constant(shape, tf.int32, [len(shape)]), tf.constant(value, dtype))
    return tf.Variable(initial, use_resource=True, trainable=False)


def _value(k: int, n: int) -> int:
    """Return the value of gradient n of tower k: small, so that sums and means are exact in every dtype."""
    return k + 1 + n % 3


def _deviation_of(session: tf.Session, replicas: list[list[tf.Variable]], op: ReduceOp) -> float:
    """Return the largest relative error of the entries of replicas; 0 if all are right."""
    num_towers, largest = len(replicas), 0.0
    for tower in replicas:
        for n, value in enumerate(session.run(tower)):
            expected = -sum(_value(j, n) for j in range(num_towers)) / op.divisor(num_towers)
            # In the dtype of the gradients, which may not represent the right value.
            if value.size and not (value == expected).all():
                largest = max(largest, float(np.max(np.abs(value.astype(np.float64) / expected - 1))))
    return largest


def _time_rounds(step: Callable[[], object], steps: int, rounds: int) -> tuple[float, ...]:
    for _ in range(_WARMUP_STEPS):
        step()
    secs = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        secs.append((time.perf_counter() - start) / steps)
    return tuple(secs)


def _config(session_config: tf.ConfigProto | None, graph: tf.Graph) -> tf.ConfigProto:
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    if session_config is not None:
        config.CopyFrom(session_config)
    if not config.graph_options.HasField("rewrite_options"):
        # Training sessions enable the rewrites that pay, and none does for copies and sums. One of TensorFlow's
        # defaults splits sums where memory seems short, at a third more time.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    provide_cpu_devices(config, graph)
    return config


if __name__ == "__main__":
    main()
