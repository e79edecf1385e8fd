"""Workers that exchange encoded gradients, all of them in one graph and one session, and what each has of it."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.multi_worker.all_reduce import all_reduce_between_workers
from tpack.multi_worker.codecs.rank_state import rank_variables_here
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.grads import ReduceOp


class EncodedExchange:
    """W workers that exchange gradients, whose queues meet in one process.

    Attributes:
        variables: the state of each worker, by rank.
    """

    def __init__(self, session, workers, shapes, exchange, *, op="mean", dtype=np.float32, run="run"):
        self._session = session
        self._fed = [[tf.placeholder(dtype, shape) for shape in shapes] for _ in range(workers)]
        self._results, self.variables = [], []
        step = get_global_step_var()
        for rank, own in enumerate(self._fed):
            group = WorkerGroup(["/job:localhost/task:0"] * workers, rank, run)
            before = len(rank_variables_here())
            self._results.append(all_reduce_between_workers(group, own, ReduceOp(op), exchange=exchange))
            self.variables.append(rank_variables_here()[before:])
        with tf.control_dependencies([each for own in self._results for each in own]):
            self._count = step.assign_add(1, read_value=False)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def step(self, grads, feeds=None):
        """Exchange W lists of arrays; return what each worker gets."""
        feeds = dict(feeds or {}) | {
            tensor: array
            for own, arrays in zip(self._fed, grads, strict=True)
            for tensor, array in zip(own, arrays, strict=True)
        }
        return self._session.run([self._results, self._count], feeds)[0]

    def everything(self):
        """Return all of the state of each worker."""
        return self._session.run(self.variables)

    def state(self, name):
        """Return the values of the workers' own state of a name, as a list for each."""
        return self._session.run([[v for v in own if _parts(v) == ("own", name)] for own in self.variables])

    def left(self):
        """Return the sum of the errors that all workers have kept of their own gradients, as a vector."""
        return sum(np.concatenate([each.ravel() for each in own]) for own in self.state("error"))

    def left_of_sums(self):
        """Return the errors of the sums that workers have encoded, by rank, as a vector; 0 without any."""
        found = self._session.run([[v for v in own if _parts(v) == ("sum", "error")] for own in self.variables])
        pieces = [each for own in found for each in own]
        return np.concatenate(pieces) if pieces else 0


def _parts(variable):
    """Return whose a variable is, the worker's own or one of sums, and its name without a number."""
    scopes = variable.op.name.split("/")
    return "sum" if any(each.split("_")[0] == "sum" for each in scopes[:-1]) else "own", scopes[-1].split("_")[0]


def assert_equal_bits(results):
    """Check that all workers have the same."""
    for other in results[1:]:
        assert all(np.array_equal(*pair) for pair in zip(results[0], other, strict=True))
