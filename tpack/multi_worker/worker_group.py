"""A group of workers as one of them sees it, and the queues between them.

**Direction.** A worker fills queues on its own server only, and takes from those of the others: only requested data
cross the network. Each queue has one sender and one receiver, which use it once a step in turn, so no worker is more
than one step ahead, and no queue is ever full.

**Isolation.** The name of a queue contains that of the run.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.reduction.cross_replica import across_workers
from tpack.reduction.sums import on_device, sum_tensors
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_count, check_text, mismatch

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
        machines: the number of each worker's machine; empty where they are not known.

    Raises:
        ConfigError: The rank does not exist, the name is empty, or there is not a machine for each worker.
    """

    tasks: Sequence[str]
    rank: int
    run: str
    machines: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        check_count(self, "rank", self.rank, 0, len(self.tasks) - 1)
        check_text(self, "run", self.run)
        object.__setattr__(self, "machines", tuple(self.machines))
        if len(self.machines) not in (0, len(self.tasks)):
            raise ConfigError(mismatch(self, "machines", self.machines, f"one for each of {len(self.tasks)} workers"))

    @staticmethod
    def of_member(member: Any, run: str) -> "WorkerGroup":
        """Return the group of all workers of a cluster; those with one host are on one machine.

        Args:
            member: the `ClusterMember` of this process.
            run: see `WorkerGroup`.

        Raises:
            ConfigError: It is not a worker.
        """
        if member.rank is None:
            raise ConfigError(f"WorkerGroup.of_member got a process that does not train: expected a worker ({member})")
        ranks = range(member.num_workers)
        hosts = [address.rpartition(":")[0] for address in member.workers]
        first = {host: rank for rank, host in reversed(list(enumerate(hosts)))}
        machines = [first[host] for host in hosts]
        return WorkerGroup([_servers.task_device(member, rank) for rank in ranks], member.rank, run, machines)

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

    def place_in_tree(self, root: int) -> tuple[int | None, list[int]]:
        """Return the sender to this worker in the binomial tree of a root, None in the root, and its receivers.

        The receiver with the most workers below it is the first.
        """
        place = (self.rank - root) % self.size
        lowest = place & -place or 1 << self.size.bit_length()
        steps = [1 << bit for bit in reversed(range(lowest.bit_length() - 1)) if place + (1 << bit) < self.size]
        sender = (place - lowest + root) % self.size if place else None
        return sender, [(place + step + root) % self.size for step in steps]

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


@check_arguments
class StatisticsExchange:
    """Exchange of statistics inside of the model: a `tpack.reduction.cross_replica.WorkerExchange` for a group.

    Each call has queues of its own, by its number in the graph. The forward pass sends rows to all, and the backward
    pass sends each worker the sums of the gradients of its rows. All workers build the same calls in the same order,
    which is compared before the first step, and run all of them in each step.

    Args:
        group: the workers.
        arrivals: the `Arrivals` that count the parts of the first call; None for none.
    """

    def __init__(self, group: WorkerGroup, arrivals: Any = None) -> None:
        self._group = group
        self._arrivals = arrivals
        self._num_calls = 0

    def gather(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the rows of all workers, by rank.

        Shapes:
            [K, ...], the same in all workers, to [W * K, ...].
        """
        rows = self._swap("rows", [tensor] * self._group.size)
        with on_device(self._group.device()):
            return tf.concat(rows, 0)

    def scatter_sums(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return this worker's rows of the sum over the workers, added in the order of the ranks.

        Shapes:
            [W * K, ...], the same in all workers, to [K, ...].
        """
        with on_device(self._group.device()):
            parts = tf.split(tensor, self._group.size)
        own = self._swap("sums", parts)
        with on_device(self._group.device()):
            return sum_tensors(own)

    def _swap(self, kind: str, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Send each worker its part; return the parts for this one, by rank."""
        group, number = self._group, self._num_calls
        self._num_calls += 1
        name = f"statistics/{number}/{kind}"
        note_exchanged(parts[group.rank], "a statistic", name)
        with tf.name_scope("exchange_statistics"):
            sends = [group.put(name, o, [parts[o]]) for o in group.others]
            received = []
            for rank, part in enumerate(parts):
                taken = [part] if rank == group.rank else group.take(name, rank, [part.dtype.base_dtype], [part.shape])
                received += taken
            if self._arrivals is not None and number == 0:
                sends += self._arrivals.note(group, received)
            with on_device(group.device()), tf.control_dependencies(sends):
                return [tf.identity(part) for part in received]


@contextmanager
def statistics_exchanged(group: WorkerGroup, arrivals: Any = None) -> Iterator[None]:
    """Let layers in a block synchronise statistics over the workers, if there are several."""
    if group.size == 1:
        yield
        return
    with across_workers(StatisticsExchange(group, arrivals)):
        yield
