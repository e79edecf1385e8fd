"""All-reduce of gradients over workers, each of which has a graph of its own.

Graphs meet in queues (`tpack.multi_worker.worker_group`). Small gradients are joined to buckets, large ones are buckets
themselves (`tpack.multi_worker.gradient_buckets`), in the order of the backward pass, so that the first travel while it
runs. A bucket takes one of three routes (`tpack.multi_worker.routes`), by its size and the number W of workers.
Directly: every worker sends it to all others, and each adds all W; one hop. In parts: it is cut into W parts, and
worker o adds all parts o and sends the sum to all; two hops, in which each number travels twice, as in a ring. In two
levels: in parts inside groups of workers, and between them. With a codec (`tpack.multi_worker.codecs`) large matrices
travel encoded, directly or in parts.

**Equal bits.** All buckets and parts are added in the order of the ranks, those of two levels in each group first.

**Pairing.** Variables are copied by their names. Buckets follow the order of the backward pass, so the graphs of all
workers must exchange the same in the same order: `exchanged_here` lists it for a comparison before the first step, and
the queues of named gradients contain their names, so that other ones never meet.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.memory import ErrorFeedback, Memory, NoMemory
from tpack.multi_worker.gradient_buckets import (
    BUCKET_BYTES,
    creation_order,
    note_exchanged,
    plan_buckets,
    plan_exchange,
    variables_change_in_place,
)
from tpack.multi_worker.routes import (
    Bucket,
    Groups,
    LevelChoice,
    Noting,
    groups_for,
    groups_of,
    note_nothing,
    whole_group,
)
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import concat_slices, divide, on_device
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_count, mismatch, shown

_adasum_exchange = LazyModule("tpack.multi_worker.adasum_exchange")
_communicator = LazyModule("tpack.multi_worker.codecs.communicator")

WIRE_DTYPES = ("float16", "bfloat16")


class Arrivals:
    """Counters of the workers' parts of the current step, to find out which worker this one waits for.

    It is an argument of `Exchange`, for one exchange of a graph.
    """

    def __init__(self) -> None:
        self._counts: list[tf.Variable] = []
        self._ranks: list[list[int]] = []
        self._seen: list[int] = []
        self._rank = 0

    def note(self, group: WorkerGroup, arrived: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Return operations that count when the tensor of each rank is there: one for the ranks of one tensor.

        Creates:
            A local variable for each tensor, in the current graph.
        """
        self._rank = group.rank
        ranks_of: dict[tf.Operation, list[int]] = {}
        for rank, tensor in enumerate(arrived):
            ranks_of.setdefault(tensor.op, []).append(rank)
        counts = []
        for operation, ranks in ranks_of.items():
            with on_device(group.device()), tf.control_dependencies(None):
                count = tf.get_variable(
                    f"arrivals/{len(self._counts)}",
                    [],
                    tf.int64,
                    tf.zeros_initializer(),
                    trainable=False,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    use_resource=True,
                )
            with on_device(group.device()), tf.control_dependencies([operation]):
                counts.append(count.assign_add(1, read_value=False))
            self._counts.append(count)
            self._ranks.append(ranks)
        return counts

    def missing(self, session: tf.Session) -> list[int]:
        """Return the ranks whose part is missing although this worker's is there, if none has come since the last call.

        May be called from any thread.
        """
        before, self._seen = self._seen, session.run(self._counts)
        of_rank = Counter[int]()
        for count, ranks in zip(before, self._ranks, strict=False):
            of_rank.update(dict.fromkeys(ranks, count))
        return [rank for rank in sorted(of_rank) if of_rank[rank] < of_rank[self._rank] and before == self._seen]


@check_arguments
@dataclass(frozen=True)
class Exchange:
    """Options of an exchange of gradients between workers.

    Args:
        wire_dtype: ``"float16"`` or ``"bfloat16"``: float32 and float64 are rounded to it for the network, as summands
            and, where sums travel, as sums, and added in float32. None sends them as they are. With a codec, for what
            it leaves out.
        bucket_bytes: the intended size of a bucket, in bytes before rounding: see `plan_buckets`.
        codec: the encoding of large dense gradients, such as `Int8()`; `Codec.takes` chooses them. The others, and
            ``IndexedSlices``, travel as they are. None encodes nothing.
        memory: what is done with the errors of the encoding, such as `ErrorFeedback()`; None for nothing. ``"auto"`` is
            `ErrorFeedback` where the codec loses something.
        start_step: gradients travel as they are for so many steps of the training, before they are encoded.
        levels: 1 exchanges between all workers at once; 2 in groups of about the square root of their number, and
            between them; ``"machines"`` in each machine, and between them. None takes two where their number of
            messages pays. What is encoded or sparse, or goes directly with as few messages, has one level.
        op: ``"adasum"`` adds what differs between the workers' gradients, and averages what they have in common: see
            `AdasumReducer`. None is the sum or the mean, as the trainer's ``average`` says.
        arrivals: counters for the parts of the first and the last bucket.
        names: those of the gradients' variables, the same in all workers; "" for one without.
        scale: by what the gradients of a step are multiplied; encodings and their memory see them without it.
        has_wide_sums: float32 are added in float64, so that the mean of equal numbers is that number.

    Raises:
        ConfigError: Another dtype, or a number is out of range, or a memory or first step without a codec, or a codec
            or levels with Adasum.

    Example:
        ``Exchange(codec=PowerSGD(4), start_step=1000)``
    """

    wire_dtype: str | tf.DType | None = None
    bucket_bytes: int = BUCKET_BYTES
    codec: Codec | None = field(default=None, kw_only=True)
    memory: Memory | Literal["auto"] | None = field(default="auto", kw_only=True)
    start_step: int = field(default=0, kw_only=True)
    levels: LevelChoice = field(default=None, kw_only=True)
    op: Literal["adasum"] | None = field(default=None, kw_only=True)
    arrivals: Arrivals | None = field(default=None, repr=False, compare=False, kw_only=True)
    names: Sequence[str] = field(default=(), repr=False, compare=False, kw_only=True)
    scale: tf.Tensor | None = field(default=None, repr=False, compare=False, kw_only=True)
    has_wide_sums: bool = field(default=False, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.wire_dtype is not None:
            name = getattr(self.wire_dtype, "name", self.wire_dtype)
            if name not in WIRE_DTYPES:
                raise ConfigError(
                    f"Exchange got wire_dtype={shown(self.wire_dtype)}: expected {' or '.join(WIRE_DTYPES)}, or None"
                )
            object.__setattr__(self, "wire_dtype", tf.as_dtype(name))
        check_count(self, "bucket_bytes", self.bucket_bytes)
        check_count(self, "start_step", self.start_step, 0)
        self._check_op_and_levels()
        if self.memory == "auto":
            is_needed = self.codec is not None and not self.codec.is_lossless
            object.__setattr__(self, "memory", ErrorFeedback() if is_needed else None)
        for name, default in (("memory", None), ("start_step", 0)):
            if self.codec is None and getattr(self, name) != default:
                raise ConfigError(mismatch(self, name, getattr(self, name), "it together with a codec", "codec=Int8()"))

    def _check_op_and_levels(self) -> None:
        if self.op not in (None, "adasum"):
            raise ConfigError(mismatch(self, "op", self.op, '"adasum" or None', "average= of the trainer for a sum"))
        if self.levels not in (None, 1, 2, "machines"):
            raise ConfigError(mismatch(self, "levels", self.levels, '1, 2, "machines" or None'))
        for name in ("codec", "levels"):
            if self.op == "adasum" and getattr(self, name) is not None:
                wanted = 'None with op="adasum", which needs whole gradients'
                raise ConfigError(mismatch(self, name, getattr(self, name), wanted))

    @property
    def takes(self) -> Callable[[Sequence[int]], bool] | None:
        """Whether gradients of a shape travel encoded; None without a codec."""
        return None if self.codec is None else self.codec.takes

    def dtype_on_wire(self, dtype: tf.DType) -> tf.DType:
        """Return the dtype in which numbers of a dtype are sent."""
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
    """Reduce N gradients of each worker over the workers, all of which call this alike.

    Fetching a result exchanges its whole bucket, so all workers have to run the same results in each step, or they wait
    for each other.

    Args:
        group: the workers.
        grads: this worker's, dense with shapes that are known, or ``IndexedSlices``.
        op: sum or mean over the workers.
        name: different for each exchange of the run.
        exchange: options; None means ``Exchange()``.
        ready_order: the indices of the gradients, the first to become ready first; None is the order of creation of
            their operations.

    Returns:
        N gradients on the worker's CPU, with equal bits on all workers; with one worker, ``grads`` themselves.

    Shapes:
        Dense ones unchanged. The first dimension of sparse ones is the sum over the workers.

    Raises:
        ReductionError: A gradient cannot be reduced, its shape is not known, the order is not a permutation, or there
            are more or fewer names than gradients.
    """
    _check_gradients(grads, op)
    order = creation_order(grads) if ready_order is None else list(ready_order)
    if sorted(order) != list(range(len(grads))):
        raise ReductionError(
            f"all_reduce_between_workers got ready_order={order}: expected each of {len(grads)} gradients once"
        )
    if group.size == 1:
        return list(grads)
    how = exchange or Exchange()
    if how.names and len(how.names) != len(grads):
        raise ReductionError(
            f"all_reduce_between_workers got names={shown(how.names)}: expected one for each of {len(grads)} gradients"
        )
    with tf.name_scope(f"exchange_{name}"):
        results = _Gradients(group, how, op, name, grads).reduce(order)
    return [results[n] for n in range(len(grads))]


@dataclass(frozen=True)
class _Gradients:
    """The gradients of a worker on their way: in buckets, as rows, and encoded."""

    group: WorkerGroup
    how: Exchange
    op: ReduceOp
    name: str
    grads: Sequence[Gradient]
    is_copied: bool = field(default_factory=lambda: variables_change_in_place(tf.get_default_graph()))

    @functools.cached_property
    def groups(self) -> Groups:
        """Groups of workers for two levels."""
        return groups_of(self.group, self.how.levels)

    def reduce(self, order: Sequence[int]) -> dict[int, Gradient]:
        """Reduce all, and return them by index."""
        group, how, op, grads = self.group, self.how, self.op, self.grads
        if how.op == "adasum":
            return self._adasum(order)
        buckets, encoded = plan_exchange(grads, order, how.bucket_bytes, how.takes)
        results: dict[int, Gradient] = {}
        for number, bucket in enumerate(buckets):
            groups = self._groups_for([grads[n] for n in bucket])
            known = _noted(f"{self.name}/{number}", grads, bucket, how.names, groups)
            noting = self._noting(number in (0, len(buckets) - 1))
            results |= self._by_index(bucket, self._bucket(known, groups, noting).reduce)
        for n in (n for n in order if is_sparse(grads[n])):
            known = _noted(f"{self.name}/rows{n}", grads, [n], how.names)
            results[n] = _gather_slices(group, how, op, known, grads[n])
        return results if how.codec is None or not encoded else self._encode(how.codec, encoded, results)

    def _encode(
        self, codec: Codec, buckets: Sequence[Sequence[int]], results: dict[int, Gradient]
    ) -> dict[int, Gradient]:
        """Reduce gradients that are encoded, with a memory that changes if all results of the step are finite."""
        how, memory = self.how, self.how.memory
        if self.group.rank == 0:
            self._log_sizes(codec, [self.grads[n] for bucket in buckets for n in bucket])
        encoding = _communicator.Encoding(
            self.group,
            self.op,
            codec,
            memory if isinstance(memory, Memory) else NoMemory(),
            self._as_they_are,
            is_copied=self.is_copied,
            start_step=how.start_step,
            scale=how.scale,
        )
        for number, bucket in enumerate(buckets):
            known = _noted(f"{self.name}/{codec.name}{number}", self.grads, bucket, how.names)
            results |= self._by_index(bucket, functools.partial(encoding.reduce, known))
        return encoding.end(results, last=bucket)

    def _log_sizes(self, codec: Codec, encoded: Sequence[tf.Tensor]) -> None:
        sent = sum(codec.size_bytes(grad.shape.as_list(), grad.dtype.base_dtype) for grad in encoded)
        plain = sum(int(grad.shape.num_elements()) * int(grad.dtype.size) for grad in encoded)
        how_many = f"{len(encoded)}; {sent} bytes of {plain} to another worker in a step"
        logger.info(f"Gradients that are encoded by {codec.name}: {how_many}.")

    def _adasum(self, order: Sequence[int]) -> dict[int, Gradient]:
        """Combine all gradients, each as a whole, with a worker that owns it."""
        dense = _adasum_exchange.densified(self.group, self.grads)
        owners = _adasum_exchange.owners_of(dense, self.group.size)
        results: dict[int, Gradient] = {}
        buckets = plan_buckets(dense, order, self.how.bucket_bytes)
        for number, bucket in enumerate(buckets):
            known = _noted(f"{self.name}/adasum{number}", dense, bucket, self.how.names)
            exchange = _adasum_exchange.AdasumBucket(
                self.group,
                known,
                [owners[n] for n in bucket],
                self.how.dtype_on_wire,
                self.is_copied,
                self._noting(number in (0, len(buckets) - 1)),
            )
            results |= dict(zip(bucket, exchange.reduce([dense[n] for n in bucket]), strict=True))
        return results

    def _groups_for(self, tensors: Sequence[tf.Tensor]) -> Groups:
        """Return the groups of two levels for tensors of one dtype; all workers in one for a single level."""
        if self.how.has_wide_sums:
            # Between two levels a sum would be rounded.
            return whole_group(self.group.size)
        size_bytes = sum(int(tensor.shape.num_elements()) for tensor in tensors) * int(
            self.how.dtype_on_wire(tensors[0].dtype.base_dtype).size
        )
        return groups_for(size_bytes, self.groups, self.how.levels)

    def _noting(self, is_wanted: bool) -> Noting:
        return self.how.arrivals.note if is_wanted and self.how.arrivals is not None else note_nothing

    def _bucket(self, name: str, groups: Groups, noting: Noting = note_nothing) -> Bucket:
        return Bucket(
            self.group, self.op, name, self.how.dtype_on_wire, groups, self.is_copied, noting, self.how.has_wide_sums
        )

    def _by_index(self, bucket: Sequence[int], reduce: Callable[..., list[tf.Tensor]]) -> dict[int, Gradient]:
        return dict(zip(bucket, reduce([self.grads[n] for n in bucket]), strict=True))

    def _as_they_are(self, name: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return self._bucket(name, self._groups_for(tensors)).reduce(tensors)


def _noted(
    name: str, grads: Sequence[Gradient], bucket: Sequence[int], names: Sequence[str], groups: Groups = ()
) -> str:
    """Note what a bucket exchanges, and return the name of its queues, which contains that of named gradients."""
    named = [names[n] if names else "" for n in bucket]
    place = name
    if len(groups) > 1:
        # Not all ranks: it is kept for each gradient.
        place = f"{name} in {len(groups)} groups, {crc32(repr(groups).encode()):08x}"
    for n, own in zip(bucket, named, strict=True):
        note_exchanged(grads[n], own, place)
    return f"{name}-{crc32(json.dumps(named).encode())}" if any(named) else name


def _gather_slices(group: WorkerGroup, how: Exchange, op: ReduceOp, name: str, grad: tf.IndexedSlices) -> Gradient:
    """Return the rows of all workers, in the order of the ranks."""
    sends = send_rows(group, how, name, grad, group.others)
    rows = take_rows(group, how, op, name, grad)
    with on_device(group.device()), tf.control_dependencies(sends):
        return tf.IndexedSlices(tf.identity(rows.values), tf.identity(rows.indices), grad.dense_shape)


def send_rows(
    group: WorkerGroup, how: Exchange, name: str, grad: tf.IndexedSlices, receivers: Sequence[int]
) -> list[tf.Operation]:
    """Return the operations that send this worker's rows to others, which take them by `take_rows`."""
    with on_device(group.device()):
        sent = tf.cast(grad.values, how.dtype_on_wire(grad.values.dtype.base_dtype))
    return [group.put(name, o, [sent, grad.indices]) for o in receivers]


def take_rows(group: WorkerGroup, how: Exchange, op: ReduceOp, name: str, grad: tf.IndexedSlices) -> tf.IndexedSlices:
    """Return the rows that all others send, with this worker's.

    Shapes:
        The first dimension is the sum over the workers, in the order of the ranks.
    """
    dtype = grad.values.dtype.base_dtype
    shapes = [tf.TensorShape([None]).concatenate(grad.values.shape[1:]), tf.TensorShape([None])]
    with on_device(group.device()):
        own = [tf.cast(grad.values, how.dtype_on_wire(dtype)), grad.indices]
    slices = []
    for rank in range(group.size):
        dtypes = [each.dtype.base_dtype for each in own]
        rows = own if rank == group.rank else group.take(name, rank, dtypes, shapes)
        with on_device(group.device()):
            slices.append(tf.IndexedSlices(tf.cast(rows[0], dtype), rows[1]))
    with on_device(group.device()):
        gathered = concat_slices(slices)
        return tf.IndexedSlices(divide(gathered.values, op.divisor(group.size)), gathered.indices, grad.dense_shape)


@check_arguments
def copy_from_worker(
    group: WorkerGroup, variables: Sequence[tf.Variable], *, root: int = 0, name: str = "variables"
) -> tf.Operation:
    """Return an operation that copies the values of variables from one worker to all, by their names.

    They travel along a binomial tree: in log2(W) hops, and no worker sends them more often. It fails in a worker that
    has other names than the one that sends.

    Args:
        group: the workers, all of which have to run it.
        variables: this worker's, of the same names and kinds as those of the others, in any order.
        root: the rank of the worker that has the values.
        name: different for each copy of the run.

    Raises:
        ConfigError: The rank does not exist.
    """
    check_count("copy_from_worker", "root", root, 0, group.size - 1)
    if group.size == 1 or not variables:
        return tf.no_op(name=f"copy_{name}")
    names, ordered = zip(*sorted({variable.op.name: variable for variable in variables}.items()), strict=True)
    sender, receivers = group.place_in_tree(root)
    with tf.name_scope(f"copy_{name}"):
        if sender is None:
            # The reads that variables have anyway: there are hundreds of them.
            graph = tf.get_default_graph()
            values = [tf.constant(names), *map(graph.as_graph_element, ordered)]
            return tf.group(*(group.put(name, o, values) for o in receivers))
        dtypes = [tf.string, *(variable.dtype.base_dtype for variable in ordered)]
        shapes = [tf.TensorShape([None]), *(variable.shape for variable in ordered)]
        taken = group.take(name, sender, dtypes, shapes)
        with on_device(group.device()):
            # What is passed on travels once.
            sent_names, *values = map(tf.identity, taken) if receivers else taken
            is_same = tf.assert_equal(
                sent_names, tf.constant(names), message=f"worker {root} copies variables of other names: {name}"
            )
        done = [group.put(name, o, [sent_names, *values]) for o in receivers]
        for variable, value in zip(ordered, values, strict=True):
            # A distributed variable would take a device for that of the component to assign, and places all by itself.
            device = on_device(variable.device) if isinstance(variable, BaseVariable) else tf.device(None)
            with device, tf.control_dependencies([is_same]):
                done.append(variable.assign(value, read_value=False))
        return tf.group(*done)


def _check_gradients(grads: Sequence[Gradient], op: ReduceOp) -> None:
    for n, grad in enumerate(grads):
        if not is_sparse(grad) and not grad.shape.is_fully_defined():
            raise ReductionError(
                f"all_reduce_between_workers got gradient {n} ({grad.name}) of shape {grad.shape}: expected a known "
                "shape; give its variable one"
            )
        dtype = grad.dtype.base_dtype
        if not (dtype.is_floating or dtype.is_complex or (dtype.is_integer and op is ReduceOp.SUM)):
            raise ReductionError(
                f"all_reduce_between_workers got gradient {n} ({grad.name}) of {dtype.name}, which has no {op.value}"
            )
