"""Reduce gradients over the workers, each of which has a graph of its own.

Graphs meet in queues on the workers' servers. Gradients that are small are joined to buckets, large ones are one each
(`tpack.multi_worker.gradient_buckets`), in the order in which the backward pass makes them, so that the first ones travel while
it goes on. A bucket goes one of two ways, by its size and the number W of workers. Directly: every worker hands it to
all others, each adds the W of them, one hop. In parts: it is cut into W parts, every worker hands part o to worker o,
which adds the W of them and hands the sum to everybody; two hops, in which each number travels twice, as in a ring.

**Who waits where.** A worker fills queues on its own server alone, and takes from those of the others: what crosses the
wire is always what somebody asks for, as early as it is there. A queue has one who fills it and one who takes, who
pass a queue once a step in turn, so nobody can be ahead by more than one step, and nothing is ever full.

**Equal to the last bit.** A part is added by one worker, in the same order in every run, and all of them take that sum.
What goes directly is added by all of them in the order of the ranks, one after the other, and two floats have the same
sum on every machine.

**Nothing old.** The name of a queue has that of the run in it, which no other run has.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.gradient_buckets import (
    BUCKET_BYTES,
    Route,
    creation_order,
    cut,
    joined,
    parted,
    plan_buckets,
    variables_change_in_place,
)
from tpack.multi_worker.servers import task_device
from tpack.reduction.sums import add_pair, concat_slices, divide, on_device, sum_tensors, widened
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.utils.validation import check_arguments, check_count, check_text, shown

WIRE_DTYPES = ("float16", "bfloat16")

_QUEUE_SIZE = 2


@check_arguments
@dataclass(frozen=True)
class WorkerGroup:
    """The workers that exchange something, as one of them sees it.

    Args:
        tasks: the tasks of all workers by rank, as `task_device` names them.
        rank: which of them this one is.
        run: a name that all of them have, and no other training that ever uses their servers.

    Raises:
        ConfigError: There is no such rank, or the name is empty.
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

        Args:
            member: a worker.
            run: see the class.

        Raises:
            ConfigError: It is no worker.
        """
        if member.rank is None:
            raise ConfigError(f"expected a worker, but {member}")
        ranks = range(member.num_workers)
        return WorkerGroup([task_device(member, rank) for rank in ranks], member.rank, run)

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.tasks)

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks of the others."""
        return tuple(rank for rank in range(self.size) if rank != self.rank)

    def device(self, rank: int | None = None) -> str:
        """Return the CPU of a worker, by default of this one."""
        return f"{self.tasks[self.rank if rank is None else rank]}/device:CPU:0"

    def put(self, name: str, receiver: int, tensors: Sequence[tf.Tensor]) -> tf.Operation:
        """Return the operation that hands tensors to another worker, on this one's server.

        Args:
            name: what they are called, once for each sender and receiver of a run.
            receiver: its rank.
            tensors: one or more; the receiver knows their dtypes.
        """
        with on_device(self.device()):
            return self._queue(name, self.rank, receiver, [tensor.dtype.base_dtype for tensor in tensors]).enqueue(
                list(tensors)
            )

    def take(
        self, name: str, sender: int, dtypes: Sequence[tf.DType], shapes: Sequence[tf.TensorShape] | None = None
    ) -> list[tf.Tensor]:
        """Return the tensors that another worker hands to this one, as soon as it does.

        Args:
            name: what they are called.
            sender: its rank.
            dtypes: those of the tensors.
            shapes: what is known of their shapes.
        """
        with on_device(self.device(sender)):
            taken = self._queue(name, sender, self.rank, dtypes).dequeue()
        tensors = list(taken) if len(dtypes) > 1 else [taken]
        for tensor, shape in zip(tensors, shapes or (), strict=shapes is not None):
            tensor.set_shape(shape)
        return tensors

    def _queue(self, name: str, sender: int, receiver: int, dtypes: Sequence[tf.DType]) -> tf.FIFOQueue:
        shared_name = f"{self.run}/{name}/{sender}_to_{receiver}"
        return tf.FIFOQueue(_QUEUE_SIZE, list(dtypes), shared_name=shared_name, name="queue")


class Arrivals:
    """Which workers' part of the current step has come, for who wants to know whom a worker waits for.

    It is what `Exchange` gets to have it counted, and serves one exchange of a graph.
    """

    def __init__(self) -> None:
        self._counts: list[tf.Variable] = []

    def build(self, group: WorkerGroup) -> None:
        """Make the counters, in the current graph.

        Creates:
            A local variable for each worker.
        """
        with on_device(group.device()):
            self._counts = [
                tf.get_variable(
                    f"arrivals/worker{rank}",
                    [],
                    tf.int64,
                    tf.zeros_initializer(),
                    trainable=False,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    use_resource=True,
                )
                for rank in range(group.size)
            ]
        self._rank = group.rank

    def count(self, rank: int) -> tf.Operation:
        """Return the operation that counts a worker's part, to be run when it has come."""
        return self._counts[rank].assign_add(1, read_value=False)

    def missing(self, session: tf.Session) -> list[int]:
        """Return the ranks of those whose part has not come although this worker's has; from any thread."""
        counts = session.run(self._counts)
        return [rank for rank, count in enumerate(counts) if count < counts[self._rank]]


@check_arguments
@dataclass(frozen=True)
class Exchange:
    """How gradients are exchanged between workers.

    Args:
        wire_dtype: ``"float16"`` or ``"bfloat16"``: float32 and float64 are rounded to it for their way between
            workers, as summands and, where sums travel, as sums, and added in float32. None sends them as they are.
        bucket_bytes: the size that a bucket should have, in bytes before rounding: see `plan_buckets`.
        arrivals: counts whose part of the first bucket has come, if it is given.

    Raises:
        ConfigError: Another dtype, or a size of less than 1.
    """

    wire_dtype: str | tf.DType | None = None
    bucket_bytes: int = BUCKET_BYTES
    arrivals: Arrivals | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.wire_dtype is not None:
            name = getattr(self.wire_dtype, "name", self.wire_dtype)
            if name not in WIRE_DTYPES:
                raise ConfigError(
                    f"expected {' or '.join(WIRE_DTYPES)} as the wire_dtype, got {shown(self.wire_dtype)}"
                )
            object.__setattr__(self, "wire_dtype", tf.as_dtype(name))
        check_count(self, "bucket_bytes", self.bucket_bytes)

    def dtype_on_wire(self, dtype: tf.DType) -> tf.DType:
        """Return the dtype in which numbers of a dtype travel."""
        is_rounded = self.wire_dtype is not None and dtype.name in ("float32", "float64")
        return self.wire_dtype if is_rounded else dtype


@check_arguments
def all_reduce_between_workers(
    group: WorkerGroup,
    grads: Sequence[Gradient],
    op: ReduceOp = ReduceOp.MEAN,
    *,
    name: str = "gradients",
    exchange: Exchange | None = None,
    ready_order: Sequence[int] | None = None,
) -> list[Gradient]:
    """Reduce N gradients of each worker over the workers, all of which have to call this alike.

    Whatever fetches one of the results exchanges the whole bucket, so all workers have to run the same of them in each
    of their steps, and nothing of them besides: else they wait for each other.

    Args:
        group: the workers.
        grads: this worker's, dense with shapes that are known, or ``IndexedSlices``.
        op: sum or mean over the workers.
        name: tells this exchange from others of the run.
        exchange: how; None means ``Exchange()``.
        ready_order: the indices of the gradients, the first to become ready first; None takes the order in which their
            operations were created.

    Returns:
        N gradients on the worker's CPU, equal to the last bit on all workers; with one worker, ``grads`` themselves.

    Shapes:
        Dense ones as they came. The first dimension of sparse ones is the sum over the workers.

    Raises:
        ReductionError: A gradient cannot be reduced, its shape is not known, or the order is none.
    """
    _check_gradients(grads, op)
    order = creation_order(grads) if ready_order is None else list(ready_order)
    if sorted(order) != list(range(len(grads))):
        raise ReductionError(f"expected an order of {len(grads)} gradients, each once, got {order}")
    if group.size == 1:
        return list(grads)
    how = exchange or Exchange()
    results: dict[int, Gradient] = {}
    is_copied = variables_change_in_place(tf.get_default_graph())
    with tf.name_scope(f"exchange_{name}"):
        for number, bucket in enumerate(plan_buckets(grads, order, how.bucket_bytes)):
            arrivals = how.arrivals if number == 0 else None
            sums = _Bucket(group, how, op, f"{name}/{number}", is_copied, arrivals).reduce([grads[n] for n in bucket])
            results.update(zip(bucket, sums, strict=True))
        for n in (n for n in order if is_sparse(grads[n])):
            results[n] = _gather_slices(group, how, op, f"{name}/rows{n}", grads[n])
    return [results[n] for n in range(len(grads))]


@dataclass(frozen=True)
class _Bucket:
    """Dense gradients of one dtype: joined, exchanged, and taken apart again."""

    group: WorkerGroup
    how: Exchange
    op: ReduceOp
    name: str
    is_copied: bool
    arrivals: Arrivals | None = None

    def reduce(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce N tensors."""
        group, dtype = self.group, grads[0].dtype.base_dtype
        with on_device(group.device()):
            own = tf.cast(joined(grads, is_copied=self.is_copied), self.how.dtype_on_wire(dtype))
        route = Route.of_bucket(int(own.shape.num_elements()) * own.dtype.size, group.size)
        exchange = self._directly if route.is_direct else self._in_parts
        chunks = [
            exchange(f"{self.name}/{number}", chunk, dtype)
            for number, chunk in enumerate(cut(own, route.num_chunks, group.device()))
        ]
        sums, sends = [each for chunk in chunks for each in chunk.sums], [op for chunk in chunks for op in chunk.sends]
        with on_device(group.device()):
            total = tf.cast(tf.concat(sums, axis=0), dtype)
            with tf.control_dependencies([*sends, *self._count(chunks[0].summands)]):
                return parted(total, grads)

    def _directly(self, name: str, own: tf.Tensor, dtype: tf.DType) -> "_Chunk":
        """Hand a vector to all workers and add theirs, as all of them do, in the order of the ranks."""
        group = self.group
        sends = [group.put(f"{name}/whole", o, [own]) for o in group.others]
        summands = [own if o == group.rank else self._take(f"{name}/whole", o, own) for o in range(group.size)]
        with on_device(group.device()):
            total = functools.reduce(add_pair, map(widened, summands))
            return _Chunk([tf.cast(divide(total, self.op.divisor(group.size)), dtype)], sends, summands)

    def _in_parts(self, name: str, own: tf.Tensor, dtype: tf.DType) -> "_Chunk":
        """Hand part o to worker o, add the W parts that are this worker's, and hand the sum to all."""
        group = self.group
        parts = cut(own, group.size, group.device())
        sends = [group.put(f"{name}/part", o, [parts[o]]) for o in group.others]
        mine = parts[group.rank]
        summands = [mine if o == group.rank else self._take(f"{name}/part", o, mine) for o in range(group.size)]
        with on_device(group.device()):
            total = sum_tensors(summands, self.op.divisor(group.size))
        sends += [group.put(f"{name}/sum", o, [total]) for o in group.others]
        sums = [total if o == group.rank else self._take(f"{name}/sum", o, parts[o]) for o in range(group.size)]
        return _Chunk(sums, sends, summands)

    def _take(self, name: str, sender: int, like: tf.Tensor) -> tf.Tensor:
        (taken,) = self.group.take(name, sender, [like.dtype], [like.shape])
        with on_device(self.group.device()):
            return tf.identity(taken)

    def _count(self, summands: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Return what counts the summands as they come, this worker's own as it is sent."""
        if self.arrivals is None:
            return []
        self.arrivals.build(self.group)
        counts = []
        for rank, summand in enumerate(summands):
            with tf.control_dependencies([summand]):
                counts.append(self.arrivals.count(rank))
        return counts


@dataclass(frozen=True)
class _Chunk:
    """A piece of a bucket that has been exchanged.

    Attributes:
        sums: it, in one or more pieces.
        sends: what hands something to other workers.
        summands: what this worker adds, by rank.
    """

    sums: Sequence[tf.Tensor]
    sends: Sequence[tf.Operation]
    summands: Sequence[tf.Tensor]


def _gather_slices(group: WorkerGroup, how: Exchange, op: ReduceOp, name: str, grad: tf.IndexedSlices) -> Gradient:
    """Give every worker the rows of all of them, in the order of the ranks."""
    values, indices = grad.values, grad.indices
    with on_device(group.device()):
        sent = tf.cast(values, how.dtype_on_wire(values.dtype.base_dtype))
    sends = [group.put(name, o, [sent, indices]) for o in group.others]
    shapes = [tf.TensorShape([None]).concatenate(values.shape[1:]), tf.TensorShape([None])]
    slices = []
    for rank in range(group.size):
        rows = [sent, indices]
        if rank != group.rank:
            rows = group.take(name, rank, [sent.dtype, indices.dtype], shapes)
        with on_device(group.device()):
            slices.append(tf.IndexedSlices(tf.cast(rows[0], values.dtype.base_dtype), rows[1]))
    with on_device(group.device()), tf.control_dependencies(sends):
        gathered = concat_slices(slices)
        mean = divide(gathered.values, op.divisor(group.size))
        return tf.IndexedSlices(tf.identity(mean), tf.identity(gathered.indices), grad.dense_shape)


@check_arguments
def copy_from_worker(
    group: WorkerGroup, variables: Sequence[tf.Variable], *, root: int = 0, name: str = "variables"
) -> tf.Operation:
    """Return the operation that gives variables of all workers the values that they have on one of them.

    Args:
        group: the workers, all of which have to run it.
        variables: this worker's, as many and of the same kinds as those of the others.
        root: the rank of the worker whose values they are.
        name: tells this from other copies in the run.

    Raises:
        ConfigError: There is no such rank.
    """
    check_count("copy_from_worker", "root", root, 0, group.size - 1)
    if group.size == 1 or not variables:
        return tf.no_op(name=f"copy_{name}")
    with tf.name_scope(f"copy_{name}"):
        if group.rank == root:
            values = [variable.read_value() for variable in variables]
            return tf.group(*(group.put(name, o, values) for o in group.others))
        dtypes = [variable.dtype.base_dtype for variable in variables]
        values = group.take(name, root, dtypes, [variable.shape for variable in variables])
        assignments = []
        for variable, value in zip(variables, values, strict=True):
            with on_device(variable.device):
                assignments.append(variable.assign(value, read_value=False))
        return tf.group(*assignments)


def _check_gradients(grads: Sequence[Gradient], op: ReduceOp) -> None:
    for n, grad in enumerate(grads):
        if not is_sparse(grad) and not grad.shape.is_fully_defined():
            raise ReductionError(
                f"gradient {n} ({grad.name}) has the shape {grad.shape}, and workers exchange what has a shape that is "
                "known: give its variable one"
            )
        dtype = grad.dtype.base_dtype
        if not (dtype.is_floating or dtype.is_complex or (dtype.is_integer and op is ReduceOp.SUM)):
            raise ReductionError(f"gradient {n} ({grad.name}) is of {dtype.name}, which has no {op.value}")
