"""Workers whose graphs are parts of one graph, and whose queues meet in one process; and what each of them sends."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.multi_worker.all_reduce import all_reduce_between_workers
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp


def exchanged(grads, exchange, op=ReduceOp.MEAN, machines=()):
    """Return what each of W workers gets for its list of arrays or ``IndexedSlices``, as tensors."""
    reduced = []
    for rank, own in enumerate(grads):
        group = WorkerGroup(["/job:localhost/task:0"] * len(grads), rank, "run", machines)
        tensors = [each if isinstance(each, tf.IndexedSlices) else tf.constant(each) for each in own]
        reduced.append(all_reduce_between_workers(group, tensors, op, exchange=exchange))
    return reduced


def sent_by_one(workers, shapes, exchange, rank=0, machines=()):
    """Return the messages, and the bytes in all of them, that a worker of several sends in a step."""
    with tf.Graph().as_default() as graph:
        group = WorkerGroup([f"/job:worker/task:{n}" for n in range(workers)], rank, "run", machines)
        all_reduce_between_workers(group, [tf.zeros(shape) for shape in shapes], exchange=exchange)
        puts = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2"]
    vectors = [each for op in puts for each in op.inputs if each.dtype != tf.resource]
    return len(puts), sum(int(each.shape.num_elements()) * each.dtype.size for each in vectors)


def first_of_equal(results):
    """Return what the first worker has, after a check that all have the same bits."""
    first, *others = results
    for other in others:
        assert all(np.array_equal(*pair) for pair in zip(first, other, strict=True))
    return first
