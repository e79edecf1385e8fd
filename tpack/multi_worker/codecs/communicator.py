"""The communicator of an exchange with a codec: it packs, moves and adds what a `Codec` encodes.

Encoded vectors take the routes of plain ones (`tpack.multi_worker.all_reduce`). Directly: every worker sends all of its
own to all others. In parts: worker o decodes the parts o of all, adds them in the order of the ranks, and encodes the
sum once more for all, itself included, so that all have equal bits.

A message is one vector of bytes: the tensors of the codec, and a number that is NaN where the worker's own values are
not finite, since an encoding need not carry NaN. All of its results are NaN then, in all workers.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.memory import Compensated, Memory
from tpack.multi_worker.codecs.rank_state import RankState, run_updates
from tpack.multi_worker.gradient_buckets import Route, cut, joined, parted
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import add_pair, divide, on_device, sum_tensors
from tpack.tfutils.predicated import Gate
from tpack.tower.grads import Gradient, ReduceOp, gradient_values

PlainReduction: TypeAlias = Callable[[str, Sequence[tf.Tensor]], list[tf.Tensor]]


class Encoding:
    """The encoded gradients of a step: the common state of their buckets.

    Args:
        group: the workers.
        op: sum or mean.
        codec: the codec.
        memory: the memory.
        reduce_plain: reduces tensors over the workers as they are; called with the name of the queues and the tensors.
        is_copied: see `variables_change_in_place`.
        start_step: the first step, counted from 0, in which gradients are encoded.
        scale: by what the gradients of this step are multiplied, which the encoding must not see; None for nothing.
    """

    def __init__(
        self,
        group: WorkerGroup,
        op: ReduceOp,
        codec: Codec,
        memory: Memory,
        reduce_plain: PlainReduction,
        *,
        is_copied: bool = False,
        start_step: int = 0,
        scale: tf.Tensor | None = None,
    ) -> None:
        self._group, self._op, self._codec, self._memory = group, op, codec, memory
        self._reduce_plain = reduce_plain
        self._is_copied = is_copied
        self._scale = scale
        self._state = RankState(group.device(), 0, 0, group.size // op.divisor(group.size))
        self._phases = None
        if start_step:
            with on_device(group.device()):
                step = self._state.step
                self._phases = (Gate(tf.greater_equal(step, start_step)), Gate(tf.less(step, start_step)))

    def reduce(self, name: str, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce the gradients of a bucket.

        Args:
            name: that of the queues.
            grads: N tensors of one dtype.
        """
        state = self._state.named(name, self._group.rank)
        link = Communicator(
            self._group, self._op, self._codec, self._memory, state, name, self._reduce_plain, self._is_copied
        )
        with on_device(self._group.device()), tf.name_scope(f"{self._codec.name}"):
            if self._phases is None:
                return self._encoded(link, grads)
            return self._in_phases(link, grads, *self._phases)

    def _in_phases(
        self, link: "Communicator", grads: Sequence[tf.Tensor], encodes: Gate, is_plain: Gate
    ) -> list[tf.Tensor]:
        """Encode gradients, or reduce them as they are, by the step; the memory keeps its values where it sees none."""
        state, since = self._state, self._state.num_updates
        with encodes.behind():
            encoded = self._encoded(link, grads)
        made = state.take_updates(since)
        with is_plain.behind():
            plain = link.all_reduce("plain", grads)
            link.note_plain([self._unscaled(total) for total in plain])
            noted = {id(variable): value for variable, value in state.take_updates(since)}
            kept = [noted[id(v)] if id(v) in noted else v.read_value() for v, _ in made]
        for (variable, value), other in zip(made, kept, strict=True):
            state.update(variable, _either(other, value))
        return [_either(*pair) for pair in zip(plain, encoded, strict=True)]

    def _encoded(self, link: "Communicator", grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        totals = self._codec.reduce(link, [self._unscaled(grad) for grad in grads])
        return [self._scaled(total, grad.dtype) for total, grad in zip(totals, grads, strict=True)]

    def _unscaled(self, grad: tf.Tensor) -> tf.Tensor:
        wide = grad if grad.dtype.size >= tf.float32.size else tf.cast(grad, tf.float32)
        return wide if self._scale is None else wide / tf.cast(self._scale, wide.dtype)

    def _scaled(self, total: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        scaled = total if self._scale is None else total * tf.cast(self._scale, total.dtype)
        return tf.cast(scaled, dtype.base_dtype)

    def end(self, results: Mapping[int, Gradient], last: Sequence[int]) -> dict[int, Gradient]:
        """Return all results of the step, some of which are there when the state has changed.

        Args:
            results: by index, with those that were not encoded.
            last: the indices of those that wait for the state.
        """
        updates = self._state.take_updates()
        if not updates:
            return dict(results)
        with on_device(self._group.device()):
            values = [gradient_values(each) for each in results.values()]
            flags = [tf.reduce_all(tf.is_finite(each)) for each in values if each.dtype.is_floating]
            done = run_updates(updates, tf.reduce_all(tf.stack(flags)))
            with tf.control_dependencies([done]):
                waiting = {n: tf.identity(results[n]) for n in last}
        return {**results, **waiting}


@dataclass(frozen=True)
class Communicator:
    """The exchange of one bucket with a codec, as one worker sees it.

    Attributes:
        group: the workers.
        op: sum or mean.
        codec: the codec.
        memory: the memory.
        state: the state of this worker.
        name: that of the queues.
        reduce_plain: reduces tensors over the workers as they are; called with the name of the queues and the tensors.
        is_copied: see `variables_change_in_place`.
    """

    group: WorkerGroup
    op: ReduceOp
    codec: Codec
    memory: Memory
    state: RankState
    name: str
    reduce_plain: PlainReduction
    is_copied: bool = False
    _compensated: list[Compensated] = field(default_factory=list, repr=False)

    def compensate(self, values: tf.Tensor, number: int = 0) -> Compensated:
        """Return a gradient, or all of the bucket in a vector, with what the memory kept."""
        compensated = self.memory.compensate(values, self.state.of_part(number))
        self._compensated.append(compensated)
        return compensated

    def note_plain(self, totals: Sequence[tf.Tensor]) -> None:
        """Show the memory the results of a step without an encoding, in the form in which it has compensated them."""
        values = list(totals)
        if len(self._compensated) == 1 and len(values) > 1:
            values = [joined(values, is_copied=False)]
        for each, value in zip(self._compensated, values, strict=True):
            each.received_plain(tf.reshape(value, each.values.shape))

    def all_reduce(self, name: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce tensors of one dtype over the workers as they are; each name is used once."""
        return self.reduce_plain(f"{self.name}/{name}", tensors)

    def reduce_encoded(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Join gradients to a vector, encode, exchange and decode it, and split it again."""
        vector = self.compensate(joined(values, is_copied=self.is_copied))
        whole, codec = vector.values, self.codec
        count, dtype = int(whole.shape.num_elements()), whole.dtype.base_dtype
        route = encoded_route(codec, count, dtype, self.group.size)
        exchange = self._directly if route.is_direct else self._in_parts
        mark = _mark(whole)
        chunks = [
            exchange(_Chunk(self, f"{self.name}/{number}", self.state.of_part(number + 1), mark), chunk)
            for number, chunk in enumerate(cut(whole, route.num_chunks, self.group.device()))
        ]
        sends = [send for chunk in chunks for send in chunk.sends]
        vector.sent(_whole([each for chunk in chunks for each in chunk.decoded]))
        total = vector.received(_whole([each for chunk in chunks for each in chunk.totals]))
        with tf.control_dependencies(sends):
            return parted(total, values)

    def _directly(self, chunk: "_Chunk", vector: tf.Tensor) -> "_Chunk":
        """Send a vector to all workers, and add theirs, as all of them do, in the order of the ranks."""
        own = chunk.encoded(vector, 0)
        messages = chunk.gather("whole", own, [own] * self.group.size)
        decoded = [chunk.decoded_of(message) for message in messages]
        total = divide(functools.reduce(add_pair, decoded), self.op.divisor(self.group.size))
        chunk.decoded.append(decoded[self.group.rank])
        chunk.totals.append(_marked(self.codec.conclude(total), [message.mark for message in messages]))
        return chunk

    def _in_parts(self, chunk: "_Chunk", vector: tf.Tensor) -> "_Chunk":
        """Send part o to worker o, add the W parts that are this worker's, and send the sum to all."""
        group = self.group
        pieces = cut(vector, group.size, group.device())
        parts = [chunk.encoded(piece, o) for o, piece in enumerate(pieces)]
        messages = chunk.scatter("part", parts)
        decoded = [chunk.decoded_of(message) for message in messages]
        total = self.codec.conclude(sum_tensors(decoded, self.op.divisor(group.size)))
        chunk.decoded.extend(decoded[o] if o == group.rank else chunk.decoded_of(part) for o, part in enumerate(parts))
        with tf.name_scope("sum"):
            back = self.memory.for_sums().compensate(total, chunk.state.of_part(group.size))
        mark = tf.add_n([message.mark for message in messages])
        summed = replace(chunk, mark=mark).encoded(back.values, group.size + 1)
        back.sent(chunk.decoded_of(summed))
        sums = chunk.gather("sum", summed, parts)
        chunk.totals.extend(_marked(chunk.decoded_of(each), [each.mark]) for each in sums)
        return chunk


def encoded_route(codec: Codec, count: int, dtype: tf.DType, workers: int) -> Route:
    """Return the route of an encoded vector of ``count`` elements between workers."""
    route = Route.of_bucket(codec.size_bytes([count], dtype), workers)
    return replace(route, is_direct=route.is_direct or not codec.encodes_sums)


@dataclass(frozen=True)
class _Message:
    """An encoded vector of a number of elements, with its mark, which is NaN for one that is not finite."""

    parts: Sequence[tf.Tensor]
    count: int
    dtype: tf.DType
    mark: tf.Tensor

    def packed(self) -> tf.Tensor:
        """Return it as a vector of bytes."""
        return tf.concat([_bytes_of(part) for part in [*self.parts, tf.reshape(self.mark, [1])]], axis=0)

    def unpacked(self, packed: tf.Tensor) -> "_Message":
        """Return another worker's message of the same kind."""
        likes = [*self.parts, tf.reshape(self.mark, [1])]
        pieces = tf.split(packed, _sizes_of(likes, packed), num=len(likes))
        *parts, mark = [_as_like(piece, like) for piece, like in zip(pieces, likes, strict=True)]
        return replace(self, parts=parts, mark=tf.reshape(mark, []))


@dataclass(frozen=True)
class _Chunk:
    """A piece of a bucket on its way: what was sent, what the others decode of it, and the totals."""

    link: Communicator
    name: str
    state: RankState
    mark: tf.Tensor
    sends: list[tf.Operation] = field(default_factory=list)
    decoded: list[tf.Tensor] = field(default_factory=list)
    totals: list[tf.Tensor] = field(default_factory=list)

    def encoded(self, vector: tf.Tensor, number: int) -> _Message:
        """Encode a vector."""
        codec = self.link.codec
        parts = [tf.convert_to_tensor(part) for part in codec.encode(vector, self.state.of_part(number))]
        for part in parts:
            if part.dtype.base_dtype in (tf.bool, tf.string) or part.shape.rank is None:
                raise ReductionError(
                    f"{type(codec).__name__} got {part.dtype.name} of shape {part.shape} from encode: expected numbers "
                    "of a known rank; use tf.cast(..., tf.uint8) for booleans"
                )
        return _Message(parts, int(vector.shape.num_elements()), vector.dtype.base_dtype, self.mark)

    def decoded_of(self, message: _Message) -> tf.Tensor:
        """Decode a message."""
        vector = self.link.codec.decode(message.parts, message.count, message.dtype)
        return tf.ensure_shape(vector, [message.count])

    def gather(self, name: str, own: _Message, likes: Sequence[_Message]) -> list[_Message]:
        """Send a message to all others, and return those of all, by rank, each of the kind of another one."""
        group, packed = self.link.group, own.packed()
        self.sends.extend(group.put(f"{self.name}/{name}", o, [packed]) for o in group.others)
        return [own if o == group.rank else self._taken(name, o, likes[o]) for o in range(group.size)]

    def scatter(self, name: str, messages: Sequence[_Message]) -> list[_Message]:
        """Send message o to worker o, and return those that come here, by rank."""
        group, own = self.link.group, messages[self.link.group.rank]
        self.sends.extend(group.put(f"{self.name}/{name}", o, [messages[o].packed()]) for o in group.others)
        return [own if o == group.rank else self._taken(name, o, own) for o in range(group.size)]

    def _taken(self, name: str, sender: int, like: _Message) -> _Message:
        group = self.link.group
        (taken,) = group.take(f"{self.name}/{name}", sender, [tf.uint8], [tf.TensorShape([None])])
        with on_device(group.device()):
            return like.unpacked(tf.identity(taken))


def _bytes_of(part: tf.Tensor) -> tf.Tensor:
    return tf.reshape(part if part.dtype == tf.uint8 else tf.bitcast(part, tf.uint8), [-1])


def _as_like(piece: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    dtype = like.dtype.base_dtype
    shape = [-1 if size is None else size for size in like.shape.as_list()]
    shaped = tf.reshape(piece, [*shape, *([int(dtype.size)] if dtype.size > 1 else [])])
    return shaped if dtype == tf.uint8 else tf.bitcast(shaped, dtype)


def _sizes_of(likes: Sequence[tf.Tensor], packed: tf.Tensor) -> Sequence[int] | tf.Tensor:
    """Return the sizes of the parts of a message in bytes; open first dimensions share what is left."""
    shapes = [like.shape.as_list() for like in likes]
    fixed = [0 if None in shape else math.prod(shape) * _width(like) for shape, like in zip(shapes, likes, strict=True)]
    row_bytes = [
        math.prod(shape[1:]) * _width(like) if None in shape else 0 for shape, like in zip(shapes, likes, strict=True)
    ]
    if not any(row_bytes):
        return fixed
    rows = (tf.size(packed) - sum(fixed)) // sum(row_bytes)
    return rows * tf.constant(row_bytes) + tf.constant(fixed)


def _width(tensor: tf.Tensor) -> int:
    return int(tensor.dtype.size)


def _mark(values: tf.Tensor) -> tf.Tensor:
    is_finite = tf.reduce_all(tf.is_finite(values))
    return tf.where(is_finite, tf.constant(0.0), tf.constant(math.nan))


def _marked(total: tf.Tensor, marks: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return NaN in place of a total to which values that are not finite belong; otherwise the total, uncopied."""
    mark = tf.add_n(list(marks))
    switch = tf.raw_ops.Switch(data=total, pred=tf.is_nan(mark))
    spoiled = switch.output_true * tf.cast(mark, total.dtype)
    return _either(switch.output_false, spoiled)


def _whole(pieces: Sequence[tf.Tensor]) -> tf.Tensor:
    return pieces[0] if len(pieces) == 1 else tf.concat(list(pieces), axis=0)


def _either(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Return the one of two tensors that is computed in a step, on the current device."""
    merged = tf.raw_ops.Merge(inputs=[one, other]).output
    merged.set_shape(other.shape)
    return merged
