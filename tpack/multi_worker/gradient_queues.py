"""How gradients of several workers meet on parameter servers: a queue for each sender, and tokens to go on.

Worker w puts the gradient of a variable into a queue of its own on the server where the variable lies. Worker 0's graph
takes one from each, in the order of the ranks, and averages them there; so a run that is repeated gives the same numbers
to the last bit. When it has applied them it puts a token into a queue of each worker, which ends the worker's step. The
gradients of the next step are computed from what was just written, and no worker can be more than one step ahead.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.cluster.member import ClusterMember
from tpack.reduction.gradients import check_columns
from tpack.reduction.sums import on_device, sum_column
from tpack.tower.grads import Gradient, ReduceOp, gradient_values, is_sparse
from tpack.types import GradsAndVars

_CAPACITY = 2
_FIRST_SERVER = "/job:ps/task:0/device:CPU:0"


class GradientQueues:
    """The queues of one training, as one worker's graph knows them.

    Args:
        member: the worker.
    """

    def __init__(self, member: ClusterMember) -> None:
        self._rank = member.rank
        self._num_workers = member.num_workers

    def send(self, pairs: GradsAndVars) -> list[tf.Operation]:
        """Return operations that give this worker's gradients to worker 0; none in worker 0 itself.

        Args:
            pairs: N gradients and variables, which lie on parameter servers.
        """
        if self._rank == 0:
            return []
        sent = []
        for gradient, variable in pairs:
            with tf.name_scope("send_gradients"), on_device(variable.device):
                queue = _gradient_queue(gradient, variable, self._rank)
                sent.append(queue.enqueue(_sent_parts(gradient)))
        return sent

    def averaged(self, pairs: GradsAndVars) -> GradsAndVars:
        """Return the mean of all workers' gradients, each on the server of its variable; worker 0 calls it.

        Args:
            pairs: its own.

        Shapes:
            N x 2; returned: N x 2.
        """
        averaged = []
        for gradient, variable in pairs:
            with tf.name_scope("average_gradients"), on_device(variable.device):
                column = [gradient, *(_received(gradient, variable, rank) for rank in range(1, self._num_workers))]
                check_columns([[each] for each in column], ReduceOp.MEAN)
                averaged.append((sum_column(column, ReduceOp.MEAN), variable))
        return averaged

    def release(self) -> tf.Operation:
        """Return the operation by which worker 0 lets the others end their step."""
        with tf.name_scope("release_workers"), on_device(_FIRST_SERVER):
            tokens = [_token_queue(rank).enqueue(True) for rank in range(1, self._num_workers)]
            return tf.group(*tokens)

    def wait(self) -> tf.Operation:
        """Return the operation by which another worker waits for that."""
        with tf.name_scope("wait_for_update"), on_device(_FIRST_SERVER):
            return _token_queue(self._rank).dequeue().op


def _gradient_queue(gradient: Gradient, variable: tf.Variable, rank: int | None) -> tf.QueueBase:
    """Return the queue of one worker for the gradients of one variable, on the current device."""
    dtypes = [part.dtype.base_dtype for part in _sent_parts(gradient)]
    is_fixed = not is_sparse(gradient) and variable.shape.is_fully_defined()
    shapes = [variable.shape] if is_fixed else None
    return tf.FIFOQueue(_CAPACITY, dtypes, shapes, shared_name=f"gradient/{variable.op.name}/worker{rank}")


def _token_queue(rank: int | None) -> tf.QueueBase:
    return tf.FIFOQueue(_CAPACITY, [tf.bool], [[]], shared_name=f"token/worker{rank}")


def _sent_parts(gradient: Gradient) -> Sequence[tf.Tensor]:
    """Return what is sent of a gradient: of ``IndexedSlices`` the rows and their numbers."""
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _received(gradient: Gradient, variable: tf.Variable, rank: int) -> Gradient:
    """Return what a worker has sent, of the kind of worker 0's own gradient, on the current device."""
    taken = _gradient_queue(gradient, variable, rank).dequeue()
    if not is_sparse(gradient):
        taken.set_shape(gradient.shape)
        return taken
    values, indices = taken
    values.set_shape([None, *gradient_values(gradient).shape[1:]])
    indices.set_shape([None])
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
