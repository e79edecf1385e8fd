"""A group of workers as one of them sees it, and the queues between them.

**Direction.** A worker fills queues on its own server only, and takes from those of the others: only requested data
cross the network. Each queue has one sender and one receiver, which use it once a step in turn, so no worker is more
than one step ahead, and no queue is ever full.

**Isolation.** The name of a queue contains that of the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.reduction.sums import on_device
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_count, check_text

_servers = LazyModule("tpack.multi_worker.servers")
_QUEUE_SIZE = 2


@check_arguments
@dataclass(frozen=True)
class WorkerGroup:
    """The workers of an exchange, as one of them sees it.

    Args:
        tasks: the tasks of all workers by rank, as `task_device` names them.
        rank: that of this worker.
        run: a name that all of them share, and no other training on their servers.

    Raises:
        ConfigError: The rank does not exist, or the name is empty.
    """

    tasks: Sequence[str]
    rank: int
    run: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        check_count(self, "rank", self.rank, 0, len(self.tasks) - 1)
        check_text(self, "run", self.run)

    @staticmethod
    def of_member(member: ClusterMember, run: str) -> "WorkerGroup":
        """Return the group of all workers of a cluster.

        Raises:
            ConfigError: It is not a worker.
        """
        if member.rank is None:
            raise ConfigError(f"WorkerGroup.of_member got a process that does not train: expected a worker ({member})")
        ranks = range(member.num_workers)
        return WorkerGroup([_servers.task_device(member, rank) for rank in ranks], member.rank, run)

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.tasks)

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks of the others."""
        return tuple(rank for rank in range(self.size) if rank != self.rank)

    def device(self, rank: int | None = None) -> str:
        """Return the CPU device of a worker, by default of this one."""
        return f"{self.tasks[self.rank if rank is None else rank]}/device:CPU:0"

    def put(self, name: str, receiver: int, tensors: Sequence[tf.Tensor]) -> tf.Operation:
        """Return an operation that sends tensors to another worker, through a queue on this one's server.

        The name is used once for each sender and receiver of a run.
        """
        with on_device(self.device()):
            return self._queue(name, self.rank, receiver, [tensor.dtype.base_dtype for tensor in tensors]).enqueue(
                list(tensors)
            )

    def take(
        self, name: str, sender: int, dtypes: Sequence[tf.DType], shapes: Sequence[tf.TensorShape] | None = None
    ) -> list[tf.Tensor]:
        """Return the tensors that another worker sends to this one by `put`, with shapes as far as they are known."""
        with on_device(self.device(sender)):
            taken = self._queue(name, sender, self.rank, dtypes).dequeue()
        tensors = list(taken) if len(dtypes) > 1 else [taken]
        for tensor, shape in zip(tensors, shapes or (), strict=shapes is not None):
            tensor.set_shape(shape)
        return tensors

    def _queue(self, name: str, sender: int, receiver: int, dtypes: Sequence[tf.DType]) -> tf.FIFOQueue:
        shared_name = f"{self.run}/{name}/{sender}_to_{receiver}"
        return tf.FIFOQueue(_QUEUE_SIZE, list(dtypes), shared_name=shared_name, name="queue")
