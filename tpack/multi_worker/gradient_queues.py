"""Averaging of the workers' gradients on parameter servers: a gradient queue for each sender, and tokens back.

Worker w puts the gradient of a variable into a queue of its own on the server of the variable. Worker 0's graph takes
one from each queue, in the order of the ranks, and averages them there, so a repeated run has the same bits. After the
update it puts a token into a queue of each worker, which ends the worker's step. So the gradients of the next step are
computed from the new values, and no worker is more than one step ahead.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.reduction.gradients import check_columns
from tpack.reduction.sums import on_device, sum_column
from tpack.tower.grads import Gradient, ReduceOp, gradient_values, is_sparse
from tpack.types import GradsAndVars

FIRST_SERVER = "/job:ps/task:0/device:CPU:0"
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
    if member.is_chief:
        with tf.name_scope("average_gradients"):
            means = [(_mean(gradient, variable, others), variable) for gradient, variable in pairs]
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
            for gradient, variable in pairs:
                with on_device(variable.device):
                    sent.append(_gradient_queue(gradient, variable, member.rank).enqueue(_sent_parts(gradient)))
        with tf.name_scope("wait_for_update"), on_device(FIRST_SERVER):
            stop_flag.total = _scalar_queue("token", member.rank).dequeue()
        with on_device(FIRST_SERVER):
            steps = [*sent, _scalar_queue("word", member.rank).enqueue(said), stop_flag.total.op]
    with tf.control_dependencies(steps):
        rest = after()
    return tf.group(*steps, *rest, name="train_op")


def _mean(gradient: Gradient, variable: tf.Variable, others: Sequence[int]) -> Gradient:
    """Return the mean over all workers, on the server of the variable; the gradient is worker 0's own."""
    with on_device(variable.device):
        column = [gradient, *(_receive(gradient, variable, rank) for rank in others)]
        check_columns([[each] for each in column], ReduceOp.MEAN)
        return sum_column(column, ReduceOp.MEAN)


def _receive(gradient: Gradient, variable: tf.Variable, rank: int) -> Gradient:
    """Return a worker's gradient, of the same kind as worker 0's own, on the current device."""
    taken = _gradient_queue(gradient, variable, rank).dequeue()
    if not is_sparse(gradient):
        taken.set_shape(gradient.shape)
        return taken
    values, indices = taken
    values.set_shape([None, *gradient_values(gradient).shape[1:]])
    indices.set_shape([None])
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _gradient_queue(gradient: Gradient, variable: tf.Variable, rank: int | None) -> tf.QueueBase:
    dtypes = [part.dtype.base_dtype for part in _sent_parts(gradient)]
    is_fixed = not is_sparse(gradient) and variable.shape.is_fully_defined()
    shapes = [variable.shape] if is_fixed else None
    return tf.FIFOQueue(_CAPACITY, dtypes, shapes, shared_name=f"gradient/{variable.op.name}/worker{rank}")


def _sent_parts(gradient: Gradient) -> Sequence[tf.Tensor]:
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _scalar_queue(name: str, rank: int | None) -> tf.QueueBase:
    return tf.FIFOQueue(_CAPACITY, [tf.float32], [[]], shared_name=f"{name}/worker{rank}")
