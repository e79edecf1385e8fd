"""How gradients of several workers meet on parameter servers: a queue for each sender, and tokens to go on.

Worker w puts the gradient of a variable into a queue of its own on the server where the variable lies. Worker 0's graph
takes one from each, in the order of the ranks, and averages them there; so a run that is repeated gives the same
numbers to the last bit. When it has applied them it puts a token into a queue of each worker, which ends the worker's
step. The gradients of the next step are computed from what was just written, and nobody is more than one step ahead.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.stop_flag import StopFlag
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
    end_signal: StopFlag,
    *,
    then: Callable[[], Sequence[tf.Operation]] = tuple,
    after: Callable[[], Sequence[tf.Operation]] = tuple,
) -> tf.Operation:
    """Average the gradients of all workers on the servers, apply them once, and let all workers go on.

    Args:
        pairs: this worker's gradients, of variables on parameter servers.
        optimizer: worker 0's applies them.
        member: this process.
        end_signal: what workers want beside that; the token tells it to all.
        then: builds what worker 0 does when the variables have been updated, before any worker goes on.
        after: builds what a worker does when the variables have been updated, before its step is over.

    Returns:
        One step of this worker.

    Shapes:
        N x 2 in each of W workers.
    """
    said, others = end_signal.build(), range(1, member.num_workers)
    if member.is_chief:
        with tf.name_scope("average_gradients"):
            means = [(_mean(gradient, variable, others), variable) for gradient, variable in pairs]
        end_signal.told = tf.add_n([said, *(_receive_word(rank) for rank in others)])
        update = optimizer.apply_gradients(means, name="apply_gradients")
        with tf.control_dependencies([update]):
            updates = [update, *then()]
        steps = [*updates, *_release(end_signal.told, others, updates)]
    else:
        with tf.name_scope("send_gradients"):
            sent = [_send(gradient, variable, member.rank) for gradient, variable in pairs]
        end_signal.told = _take_token(member.rank)
        steps = [*sent, _send_word(said, member.rank), end_signal.told.op]
    with tf.control_dependencies(steps):
        rest = after()
    return tf.group(*steps, *rest, name="train_op")


def _mean(gradient: Gradient, variable: tf.Variable, others: Sequence[int]) -> Gradient:
    """Return the mean over all workers, on the server of the variable; the gradient is worker 0's own."""
    with on_device(variable.device):
        column = [gradient, *(_receive(gradient, variable, rank) for rank in others)]
        check_columns([[each] for each in column], ReduceOp.MEAN)
        return sum_column(column, ReduceOp.MEAN)


def _send(gradient: Gradient, variable: tf.Variable, rank: int | None) -> tf.Operation:
    with on_device(variable.device):
        return _gradient_queue(gradient, variable, rank).enqueue(_sent_parts(gradient))


def _receive(gradient: Gradient, variable: tf.Variable, rank: int) -> Gradient:
    """Return what a worker has sent, of the kind of worker 0's own gradient, on the current device."""
    taken = _gradient_queue(gradient, variable, rank).dequeue()
    if not is_sparse(gradient):
        taken.set_shape(gradient.shape)
        return taken
    values, indices = taken
    values.set_shape([None, *gradient_values(gradient).shape[1:]])
    indices.set_shape([None])
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _gradient_queue(gradient: Gradient, variable: tf.Variable, rank: int | None) -> tf.QueueBase:
    """Return the queue of one worker for the gradients of one variable, on the current device."""
    dtypes = [part.dtype.base_dtype for part in _sent_parts(gradient)]
    is_fixed = not is_sparse(gradient) and variable.shape.is_fully_defined()
    shapes = [variable.shape] if is_fixed else None
    return tf.FIFOQueue(_CAPACITY, dtypes, shapes, shared_name=f"gradient/{variable.op.name}/worker{rank}")


def _sent_parts(gradient: Gradient) -> Sequence[tf.Tensor]:
    """Return what is sent of a gradient: of ``IndexedSlices`` the rows and their numbers."""
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _send_word(said: tf.Tensor, rank: int | None) -> tf.Operation:
    with on_device(FIRST_SERVER):
        return _scalar_queue("word", rank).enqueue(said)


def _receive_word(rank: int) -> tf.Tensor:
    with on_device(FIRST_SERVER):
        return _scalar_queue("word", rank).dequeue()


def _release(told: tf.Tensor, others: Sequence[int], updates: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Return the operations by which worker 0 lets the others end their step."""
    with tf.name_scope("release_workers"), on_device(FIRST_SERVER), tf.control_dependencies(updates):
        return [_scalar_queue("token", rank).enqueue(told) for rank in others]


def _take_token(rank: int | None) -> tf.Tensor:
    """Return what worker 0 tells when the variables have been updated."""
    with tf.name_scope("wait_for_update"), on_device(FIRST_SERVER):
        return _scalar_queue("token", rank).dequeue()


def _scalar_queue(name: str, rank: int | None) -> tf.QueueBase:
    return tf.FIFOQueue(_CAPACITY, [tf.float32], [[]], shared_name=f"{name}/worker{rank}")
