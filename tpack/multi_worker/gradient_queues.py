"""Averaging of the workers' gradients on parameter servers: a gradient queue for each sender, and tokens back.

Worker w puts the gradient of a variable into a queue of its own on the server of the variable. Worker 0's graph takes
one from each queue, in the order of the ranks, and averages them there, so a repeated run has the same bits. After the
update it puts a token into a queue of each worker, which ends the worker's step. So the gradients of the next step are
computed from the new values, and no worker is more than one step ahead.

Of more than `MOST_APART` workers, each puts all its gradients of a server's variables into one queue: with a queue for
each, worker 0's graph would have two operations for each variable and worker.
"""

import json
from collections.abc import Callable, Sequence
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.reduction.gradients import check_columns, transposed
from tpack.reduction.sums import on_device, sum_column
from tpack.tower.grads import Gradient, ReduceOp, gradient_values, is_sparse
from tpack.types import GradsAndVars

FIRST_SERVER = "/job:ps/task:0/device:CPU:0"
MOST_APART = 16
"""The number of workers up to which a gradient travels by itself, as soon as it is there."""

_CAPACITY = 2


def apply_once(
    pairs: GradsAndVars,
    optimizer: tf.train.Optimizer,
    member: ClusterMember,
    stop_flag: StopFlag,
    *,
    then: Callable[[], Sequence[tf.Operation]] = tuple,
    after: Callable[[], Sequence[tf.Operation]] = tuple,
) -> tf.Operation:
    """Average the gradients of all workers on the servers, apply them once, and release all; return a worker's step.

    Args:
        pairs: this worker's gradients, of variables on parameter servers.
        optimizer: worker 0's applies them.
        member: this process.
        stop_flag: the stop flag, which the token distributes.
        then: builds worker 0's operations between the update and the release of the workers.
        after: builds a worker's operations between its release and the end of its step.

    Shapes:
        N x 2 in each of W workers.
    """
    for gradient, variable in pairs:
        note_exchanged(gradient, variable.op.name)
    said, others = stop_flag.build(), range(1, member.num_workers)
    messages = _messages(pairs, member.num_workers)
    if member.is_chief:
        with tf.name_scope("average_gradients"):
            means = [mean for message in messages for mean in _means(message, others)]
        with on_device(FIRST_SERVER):
            words = [_scalar_queue("word", rank).dequeue() for rank in others]
        stop_flag.total = tf.add_n([said, *words])
        update = optimizer.apply_gradients(means, name="apply_gradients")
        with tf.control_dependencies([update]):
            updates = [update, *then()]
        with tf.name_scope("release_workers"), on_device(FIRST_SERVER), tf.control_dependencies(updates):
            steps = [*updates, *(_scalar_queue("token", rank).enqueue(stop_flag.total) for rank in others)]
    else:
        with tf.name_scope("send_gradients"):
            sent = []
            for message in messages:
                with on_device(message[0][1].device):
                    parts = [part for gradient, _ in message for part in _sent_parts(gradient)]
                    sent.append(_gradient_queue(message, member.rank).enqueue(parts))
        with tf.name_scope("wait_for_update"), on_device(FIRST_SERVER):
            stop_flag.total = _scalar_queue("token", member.rank).dequeue()
        with on_device(FIRST_SERVER):
            steps = [*sent, _scalar_queue("word", member.rank).enqueue(said), stop_flag.total.op]
    with tf.control_dependencies(steps):
        rest = after()
    return tf.group(*steps, *rest, name="train_op")


def _messages(pairs: GradsAndVars, num_workers: int) -> list[GradsAndVars]:
    """Return the pairs in groups, each of which a worker sends at once to the server of its variables."""
    if num_workers <= MOST_APART:
        return [[pair] for pair in pairs]
    of_server: dict[str, list[tuple[Gradient, tf.Variable]]] = {}
    for gradient, variable in pairs:
        of_server.setdefault(variable.device, []).append((gradient, variable))
    return list(of_server.values())


def _means(message: GradsAndVars, others: Sequence[int]) -> GradsAndVars:
    """Return the means over all workers, on the server of the variables; the gradients are worker 0's own."""
    with on_device(message[0][1].device):
        columns = transposed([[gradient for gradient, _ in message], *(_receive(message, rank) for rank in others)])
        for column in columns:
            check_columns([[each] for each in column], ReduceOp.MEAN)
        means = [sum_column(column, ReduceOp.MEAN) for column in columns]
    return [(mean, variable) for mean, (_, variable) in zip(means, message, strict=True)]


def _receive(message: GradsAndVars, rank: int) -> list[Gradient]:
    """Return a worker's gradients, of the same kinds as worker 0's own, on the current device."""
    taken = _gradient_queue(message, rank).dequeue()
    parts = iter(taken if isinstance(taken, list) else [taken])
    received: list[Gradient] = []
    for gradient, _ in message:
        values = next(parts)
        if not is_sparse(gradient):
            values.set_shape(gradient.shape)
            received.append(values)
            continue
        indices = next(parts)
        values.set_shape([None, *gradient_values(gradient).shape[1:]])
        indices.set_shape([None])
        received.append(tf.IndexedSlices(values, indices, gradient.dense_shape))
    return received


def _gradient_queue(message: GradsAndVars, rank: int | None) -> tf.QueueBase:
    dtypes = [part.dtype.base_dtype for gradient, _ in message for part in _sent_parts(gradient)]
    is_fixed = all(not is_sparse(gradient) and v.shape.is_fully_defined() for gradient, v in message)
    shapes = [variable.shape for _, variable in message] if is_fixed else None
    names = [variable.op.name for _, variable in message]
    name = names[0] if len(names) == 1 else f"{len(names)} of {names[0]}-{crc32(json.dumps(names).encode())}"
    return tf.FIFOQueue(_CAPACITY, dtypes, shapes, shared_name=f"gradient/{name}/worker{rank}")


def _sent_parts(gradient: Gradient) -> Sequence[tf.Tensor]:
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _scalar_queue(name: str, rank: int | None) -> tf.QueueBase:
    return tf.FIFOQueue(_CAPACITY, [tf.float32], [[]], shared_name=f"{name}/worker{rank}")
