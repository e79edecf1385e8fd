"""The messages, bytes and work of a training step of one worker of several, from the plans that graphs are built by.

Nothing is built: buckets, routes, pieces, groups, owners and encoded sizes come from the functions that the exchange
itself calls. A `Course` is the way of a bucket: stages one after the other, each of some lanes side by side, and in a
lane `Hop` and `Work` in turns. Workers are alike, so each sees the others do what it does itself.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.memory import Compensated, NoMemory
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.multi_worker.gradient_buckets import cut_sizes, plan_buckets, plan_exchange
from tpack.multi_worker.routes import Groups, groups_for, groups_of, levels_of, way_of, whole_group
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.utils.lazy import LazyModule

_sharded = LazyModule("tpack.graph_builder.sharded")
_adasum_exchange = LazyModule("tpack.multi_worker.adasum_exchange")
_communicator = LazyModule("tpack.multi_worker.codecs.communicator")
_sharded_builder = LazyModule("tpack.multi_worker.sharded_builder")

WORKER, SERVER, ELSEWHERE = "worker", "server", "elsewhere"
"""Where something happens: in this worker, in a parameter server (with its number), or in a worker that is idle."""

_MARK_BYTES = 4
"""The number of an encoded message that is NaN where its values are not finite."""
_INDEX_BYTES = 8
_NARROWEST_SUM = 4
"""The bytes of the narrowest numbers that are added as they are."""


@dataclass(frozen=True)
class GradientSpec:
    """One gradient of a model.

    Attributes:
        name: that of its variable.
        shape: that of the gradient; of a sparse one that of its rows.
        dtype: the name of its dtype.
        ready: when it is ready, as a share of the computation of a step.
        is_sparse: whether it is ``IndexedSlices``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    ready: float = 1.0
    is_sparse: bool = False

    @cached_property
    def spec(self) -> tf.TensorSpec:
        """Shape and dtype."""
        return tf.TensorSpec(self.shape, tf.as_dtype(self.dtype))

    @property
    def size_bytes(self) -> int:
        """The bytes of its numbers."""
        return int(self.spec.shape.num_elements()) * int(self.spec.dtype.size)


@dataclass(frozen=True)
class Hop:
    """Messages that travel at a time.

    Attributes:
        sent: the number that the sender sends.
        sent_bytes: the bytes of these.
        received: the number that the receiver receives, from all of its senders.
        received_bytes: the bytes of these.
        sender: `WORKER`, `ELSEWHERE` or a server.
        receiver: likewise.
        remote: the share of them that leave the machine.
    """

    sent: int
    sent_bytes: int
    received: int
    received_bytes: int
    sender: str = WORKER
    receiver: str = WORKER
    remote: float = 1.0


@dataclass(frozen=True)
class Work:
    """Work of a processor between hops.

    Attributes:
        summed_bytes: the bytes that are added, or copied to be joined or split.
        encoded: the elements that are encoded.
        decoded: the elements that are decoded.
        node: where.
    """

    summed_bytes: float = 0.0
    encoded: float = 0.0
    decoded: float = 0.0
    node: str = WORKER


Lane: TypeAlias = tuple[Hop | Work, ...]
Stage: TypeAlias = tuple[Lane, ...]


@dataclass(frozen=True)
class Course:
    """The way of a bucket.

    Attributes:
        members: the indices of its gradients.
        stages: one after the other; the lanes of each go side by side.
    """

    members: tuple[int, ...]
    stages: tuple[Stage, ...]

    @property
    def hops(self) -> Iterable[Hop]:
        """All of its hops."""
        return (each for stage in self.stages for lane in stage for each in lane if isinstance(each, Hop))

    @property
    def works(self) -> Iterable[Work]:
        """All of its work."""
        return (each for stage in self.stages for lane in stage for each in lane if isinstance(each, Work))


@dataclass(frozen=True)
class Schedule:
    """A step's exchange, as one worker sees it.

    Attributes:
        courses: those of gradients, or of weights.
        peers: the number of other processes that the worker calls in a step.
        before: those that precede the computation, such as the fetch of variables from servers.
    """

    courses: tuple[Course, ...]
    peers: int
    before: tuple[Course, ...] = ()

    @property
    def _sent(self) -> list[Hop]:
        hops = (hop for course in (*self.before, *self.courses) for hop in course.hops)
        return [hop for hop in hops if hop.sender == WORKER]

    @property
    def messages(self) -> int:
        """The number that the worker sends in a step."""
        return sum(hop.sent for hop in self._sent)

    @property
    def sent_bytes(self) -> int:
        """The bytes that the worker sends in a step."""
        return sum(hop.sent_bytes for hop in self._sent)


@dataclass(frozen=True)
class Place:
    """One of W workers.

    Args:
        workers: W.
        rank: which one.
        per_machine: the number of workers of a machine, which have ranks in a row.
    """

    workers: int
    rank: int = 0
    per_machine: int = 1

    @cached_property
    def group(self) -> WorkerGroup:
        """The group as the exchange sees it."""
        machines = [rank // self.per_machine for rank in range(self.workers)]
        return WorkerGroup([f"/job:worker/task:{n}" for n in range(self.workers)], self.rank, "plan", machines)

    def remote(self, ranks: Sequence[int] | None = None) -> float:
        """Return the share of other workers, all by default, that are on other machines."""
        others = [rank for rank in (range(self.workers) if ranks is None else ranks) if rank != self.rank]
        machine = self.rank // self.per_machine
        away = sum(rank // self.per_machine != machine for rank in others)
        return away / len(others) if others else 0.0


def all_reduce_schedule(gradients: Sequence[GradientSpec], exchange: Exchange, place: Place) -> Schedule:
    """Return the schedule of `all_reduce_between_workers`.

    Args:
        gradients: in the order in which they become ready.
        exchange: its options.
        place: the worker.
    """
    if place.workers == 1:
        return Schedule((), 0)
    if exchange.op == "adasum":
        return _adasum_schedule(gradients, exchange, place)
    specs, order = [each.spec for each in gradients], [n for n, each in enumerate(gradients) if not each.is_sparse]
    plain, encoded = plan_exchange(specs, order, exchange.bucket_bytes, exchange.takes)
    plan = _Plan(place, exchange)
    courses = [Course(tuple(bucket), plan.bucket([specs[n] for n in bucket])) for bucket in plain]
    courses += [plan.rows(n, each) for n, each in enumerate(gradients) if each.is_sparse]
    if exchange.codec is not None:
        courses += [
            Course(tuple(bucket), plan.encoded(exchange.codec, [specs[n] for n in bucket])) for bucket in encoded
        ]
    return Schedule(tuple(courses), len(plan.partners))


def _adasum_schedule(gradients: Sequence[GradientSpec], exchange: Exchange, place: Place) -> Schedule:
    specs = [each.spec for each in gradients]
    owners, courses = _adasum_exchange.owners_of(specs, place.workers), []
    for bucket in plan_buckets(specs, range(len(specs)), exchange.bucket_bytes):
        lanes: list[Lane] = []
        for owner in dict.fromkeys(owners[n] for n in bucket):
            members = [specs[n] for n in bucket if owners[n] == owner]
            size = _wire_bytes(exchange, members)
            # Three scalar products and a sum of two, for all pairs of the tree.
            lanes.append(_owned(place, owner, size, size, combined_bytes=3 * place.workers * size))
        courses.append(Course(tuple(bucket), (tuple(lanes),)))
    return Schedule(tuple(courses), place.workers - 1)


def sharded_schedule(gradients: Sequence[GradientSpec], exchange: Exchange, place: Place) -> Schedule:
    """Return the schedule of `MultiWorkerShardedBuilder`: gradients to their owners, and new values back.

    Arguments are those of `all_reduce_schedule`; the stop flag, of no dimension, is reduced by itself.

    Raises:
        ConfigError: There are fewer variables than workers.
    """
    if place.workers == 1:
        return Schedule((), 0)
    flags = [each for each in gradients if each.name == STOP_FLAG]
    trained = [n for n, each in enumerate(gradients) if each.name != STOP_FLAG]
    if len(trained) < place.workers:
        raise ConfigError(
            f"shard_optimizer got {len(trained)} trained variables: expected at least one for each of "
            f"{place.workers} workers; use shard_optimizer=False"
        )
    specs = [gradients[n].spec for n in trained]
    owners, courses = (
        _sharded.choose_owners(specs, place.workers),
        list(all_reduce_schedule(flags, exchange, place).courses),
    )
    for _, owner, bucket in _sharded_builder.owner_buckets(specs, range(len(specs)), owners, exchange.bucket_bytes):
        members = [specs[n] for n in bucket]
        there, back = _wire_bytes(exchange, members), sum(map(_size_bytes, members))
        lane = _owned(place, owner, there, back, combined_bytes=place.workers * there + back)
        courses.append(Course(tuple(trained[n] for n in bucket), ((lane,),)))
    return Schedule(tuple(courses), place.workers - 1)


def server_schedule(gradients: Sequence[GradientSpec], workers: int, num_servers: int) -> Schedule:
    """Return the schedule of parameter servers that average the gradients of all workers and hand out variables.

    Args:
        gradients: in the order in which they become ready.
        workers: W.
        num_servers: the number of servers, to which variables are dealt out by size.
    """
    owners = _sharded.choose_owners([each.spec for each in gradients], num_servers)
    fetches, courses = [], []
    for n, (each, owner) in enumerate(zip(gradients, owners, strict=True)):
        size, server = each.size_bytes, f"{SERVER}{owner}"
        fetch = Hop(workers, workers * size, 1, size, sender=server)
        fetches.append(Course((), (((fetch,),),)))
        sent = Hop(1, size, workers, workers * size, receiver=server)
        courses.append(Course((n,), (((sent, Work((workers + 1) * size, node=server)),),)))
    release = (Hop(1, _MARK_BYTES, workers, workers * _MARK_BYTES, receiver=f"{SERVER}0"),)
    released = (Hop(workers, workers * _MARK_BYTES, 1, _MARK_BYTES, sender=f"{SERVER}0"),)
    courses.append(Course(tuple(range(len(gradients))), ((release,), (released,))))
    return Schedule(tuple(courses), num_servers, tuple(fetches))


STOP_FLAG = "the stop flag"


def with_stop_flag(gradients: Sequence[GradientSpec]) -> list[GradientSpec]:
    """Return the gradients that trainers exchange: the flag of a stop is the first to be ready."""
    return [GradientSpec(STOP_FLAG, (), ready=0.0), *sorted(gradients, key=lambda each: each.ready)]


def _owned(place: Place, owner: int, there: int, back: int, *, combined_bytes: float) -> Lane:
    """Return the course of values that one worker combines for all, as the owner or another one sees it."""
    others = place.workers - 1
    if owner == place.rank:
        gathered = Hop(1, there, others, others * there, sender=ELSEWHERE)
        return (gathered, Work(combined_bytes), Hop(others, others * back, 1, back, receiver=ELSEWHERE))
    sent = Hop(1, there, others, others * there, receiver=ELSEWHERE)
    return (sent, Work(combined_bytes, node=ELSEWHERE), Hop(others, others * back, 1, back, sender=ELSEWHERE))


@dataclass(frozen=True)
class _Plan:
    """An all-reduce of one worker, and with whom it exchanges."""

    place: Place
    exchange: Exchange
    partners: set[int] = field(default_factory=set)

    @cached_property
    def groups(self) -> Groups:
        return groups_of(self.place.group, self.exchange.levels)

    def bucket(self, specs: Sequence[Any]) -> tuple[Stage, ...]:
        """Return the stages of `Bucket.reduce`."""
        size, count = _wire_bytes(self.exchange, specs), sum(int(each.shape.num_elements()) for each in specs)
        groups = whole_group(self.place.workers)
        if not self.exchange.has_wide_sums:
            groups = groups_for(size, self.groups, self.exchange.levels)
        way, num_chunks = way_of(size, groups)
        item = size // count if count else 1
        lanes = [_WAYS[way](self, chunk, item, groups) for chunk in cut_sizes(count, item, num_chunks)]
        joining = size * (len(specs) > 1)
        # Rounded numbers are rounded once for the network, and wide again at the end, if they are not by then.
        is_rounded = item != int(specs[0].dtype.size)
        encoded, decoded = count * is_rounded, count * (is_rounded and way != "directly")
        after = Work(joining + size * (num_chunks > 1), decoded=decoded)
        return (((Work(joining, encoded=encoded),),), tuple(lanes), ((after,),))

    def directly(self, count: int, item: int, groups: Groups) -> Lane:
        workers = self.place.workers
        sums = self._sums(count, item, workers, 2 * (workers - 1) + 1)
        return (self._exchange(range(workers), [count * item] * workers), sums)

    def _sums(self, count: int, item: int, summands: int, passes: float) -> Work:
        """Return the sum and mean of vectors; those of 16 bits are added in 32, and rounded again but at the end."""
        is_rounded = item < _NARROWEST_SUM
        size = count * (_NARROWEST_SUM if is_rounded else item)
        return Work(passes * size, encoded=count * is_rounded, decoded=summands * count * is_rounded)

    def in_parts(self, count: int, item: int, groups: Groups) -> Lane:
        return tuple(self._reduced(range(self.place.workers), count, item, ()))

    def in_two_levels(self, count: int, item: int, groups: Groups) -> Lane:
        inside, owners, across = levels_of(self.place.rank, groups)
        sizes = [each * item for each in cut_sizes(count, item, len(owners))]
        self.partners.update(rank for rank in inside if rank != self.place.rank)
        is_owner = bool(across)
        own, others = sizes[owners.index(self.place.rank)] if is_owner else 0, len(inside) - 1
        there, there_bytes = len(owners) - is_owner, sum(sizes) - own
        back, back_bytes = (others, own * others) if is_owner else (0, 0)
        parts = Hop(there, there_bytes, back, back_bytes, remote=self.place.remote(owners))
        sums = Hop(back, back_bytes, there, there_bytes, remote=self.place.remote(inside))
        if not is_owner:
            return (parts, sums, Work(count * item))
        total = self._sums(own // item, item, len(inside), len(inside) + 1)
        return (parts, total, *self._reduced(across, own // item, item, ()), sums, Work(count * item))

    def _reduced(self, ranks: Sequence[int], count: int, item: int, between: Iterable[Hop | Work]) -> list[Hop | Work]:
        """Return a reduction in parts among workers, and what follows the sum of the own part before it is sent."""
        sizes = [each * item for each in cut_sizes(count, item, len(ranks))]
        own = sizes[ranks.index(self.place.rank)]
        parts, sums = self._exchange(ranks, sizes), self._exchange(ranks, [own] * len(ranks), sizes)
        total = self._sums(own // item, item, len(ranks), len(ranks) + 1)
        return [parts, total, *between, sums, Work(count * item)]

    def _exchange(self, ranks: Sequence[int], sent: Sequence[int], received: Sequence[int] | None = None) -> Hop:
        """Return the hop in which a worker sends each of the others something, and receives as many.

        Args:
            ranks: those that do so.
            sent: the bytes for each of them.
            received: the bytes from each of them; None where each sends as many as are for this worker.
        """
        self.partners.update(rank for rank in ranks if rank != self.place.rank)
        own = ranks.index(self.place.rank)
        others, coming = len(ranks) - 1, [sent[own]] * len(ranks) if received is None else received
        return Hop(others, sum(sent) - sent[own], others, sum(coming) - coming[own], remote=self.place.remote(ranks))

    def rows(self, number: int, gradient: GradientSpec) -> Course:
        """Return the course of the rows of a sparse gradient, which all workers send to all others."""
        item = int(self.exchange.dtype_on_wire(gradient.spec.dtype).size)
        count = int(gradient.spec.shape.num_elements())
        size = count * item + gradient.shape[0] * _INDEX_BYTES
        workers = self.place.workers
        lane = (self._exchange(range(workers), [size] * workers), Work(workers * size))
        return Course((number,), ((lane,),))

    def encoded(self, codec: Codec, specs: Sequence[Any]) -> tuple[Stage, ...]:
        """Return the stages of gradients that a codec reduces, in the order of its calls."""
        stages: list[Stage] = []
        count = sum(int(each.shape.num_elements()) for each in specs)
        for kind, shapes, dtype in reductions_of(codec, specs):
            if kind == "plain":
                stages += self.bucket([tf.TensorSpec(shape, dtype) for shape in shapes])
            else:
                stages.append(tuple(self._encoded_lanes(codec, count, dtype)))
        # A codec without encode and decode works on the gradients themselves.
        own = () if any(work.encoded for work in _works(stages)) else (((Work(encoded=count),),),)
        size = sum(map(_size_bytes, specs))
        # To join, to add what the memory has kept and to look for NaN; to find what is kept now, and to split.
        return (*own, ((Work(4 * size),),), *stages, ((Work(5 * size),),))

    def _encoded_lanes(self, codec: Codec, count: int, dtype: tf.DType) -> Iterable[Lane]:
        workers, item = self.place.workers, int(dtype.size)
        ranks = range(workers)
        route = _communicator.encoded_route(codec, count, dtype, workers)

        def packed(elements: int) -> int:
            return codec.size_bytes([elements], dtype) + _MARK_BYTES

        for chunk in cut_sizes(count, item, route.num_chunks):
            if route.is_direct:
                yield (
                    Work(encoded=chunk),
                    self._exchange(ranks, [packed(chunk)] * workers),
                    Work((2 * workers - 1) * chunk * item, decoded=workers * chunk),
                )
                continue
            parts = cut_sizes(chunk, item, workers)
            own, sizes = parts[self.place.rank], [packed(part) for part in parts]
            yield (
                Work(encoded=chunk),
                self._exchange(ranks, sizes),
                Work((workers + 1) * own * item, encoded=own, decoded=(workers - 1) * own + chunk + own),
                self._exchange(ranks, [packed(own)] * workers, sizes),
                Work(2 * chunk * item, decoded=chunk),
            )


_WAYS: dict[Literal["directly", "in_parts", "in_two_levels"], Callable[..., Lane]] = {
    "directly": _Plan.directly,
    "in_parts": _Plan.in_parts,
    "in_two_levels": _Plan.in_two_levels,
}


def _works(stages: Iterable[Stage]) -> Iterable[Work]:
    return (each for stage in stages for lane in stage for each in lane if isinstance(each, Work))


def _size_bytes(spec: Any) -> int:
    return int(spec.shape.num_elements()) * int(spec.dtype.size)


def _wire_bytes(exchange: Exchange, specs: Sequence[Any]) -> int:
    count = sum(int(each.shape.num_elements()) for each in specs)
    return count * int(exchange.dtype_on_wire(specs[0].dtype.base_dtype).size)


@dataclass(frozen=True)
class CallsOfCodec:
    """Stand-in for a codec's `Communicator`, which moves nothing, and notes what it is asked to reduce.

    Attributes:
        state: the state of a worker.
        note: called with ``"plain"`` or ``"encoded"`` and tensors.
    """

    state: RankState
    note: Callable[[str, Sequence[tf.Tensor]], None]

    @staticmethod
    def make(note: Callable[[str, Sequence[tf.Tensor]], None]) -> "CallsOfCodec":
        """Return one for a graph.

        Creates:
            The global step, in the current graph.
        """
        tf.train.get_or_create_global_step()
        return CallsOfCodec(RankState("", 0, 0), note)

    def compensate(self, values: tf.Tensor, number: int = 0) -> Compensated:
        """See `Communicator.compensate`; nothing was kept."""
        return NoMemory().compensate(values, self.state.of_part(number))

    def all_reduce(self, name: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Note tensors that travel as they are, and return them."""
        self.note("plain", tensors)
        return list(tensors)

    def reduce_encoded(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Note tensors that travel encoded, and return them."""
        self.note("encoded", values)
        return list(values)


def reductions_of(codec: Codec, specs: Sequence[Any]) -> list[tuple[str, list[tuple[int, ...]], tf.DType]]:
    """Return what a codec reduces for some gradients: ``"plain"`` or ``"encoded"``, shapes and dtype of each call."""
    shapes, dtype = [tuple(each.shape.as_list()) for each in specs], tf.as_dtype(specs[0].dtype.base_dtype)
    if type(codec).reduce is Codec.reduce:
        return [("encoded", shapes, dtype)]
    return _calls(codec, tuple(shapes), dtype)


@functools.lru_cache(256)
def _calls(
    codec: Codec, shapes: Sequence[Sequence[int]], dtype: tf.DType
) -> list[tuple[str, list[tuple[int, ...]], tf.DType]]:
    found: list[tuple[str, list[tuple[int, ...]], tf.DType]] = []

    def note(kind: str, tensors: Sequence[tf.Tensor]) -> None:
        found.append((kind, [tuple(each.shape.as_list()) for each in tensors], tensors[0].dtype.base_dtype))

    with tf.Graph().as_default():
        link = CallsOfCodec.make(note)
        codec.reduce(link, [tf.zeros(shape, dtype) for shape in shapes])
    return found
