"""A collective operation while it is built: its name, its workers, and what travels between them.

Workers pair operations by name: the name of the scope that an operation gets in its graph, so those of all workers meet
whatever the order in which they are built or run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.horovod.process_sets import ProcessSet
from tpack.horovod.runtime import current
from tpack.horovod.sessions import collective_names
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import on_device, on_device_of


@dataclass(frozen=True)
class Call:
    """One collective operation that is being built.

    Attributes:
        kind: such as ``"allreduce"``.
        name: that by which workers pair it.
        process_set: the workers that take part.
        group: the same, for exchanges.
        about: dtypes, shapes and options, the same in all workers.
    """

    kind: str
    name: str
    process_set: ProcessSet
    group: WorkerGroup
    about: str

    @property
    def queue(self) -> str:
        """The name of its queues, apart from those of operations of this name in other graphs."""
        return f"{self.kind}/{self.name}/{crc32(self.about.encode()):08x}"

    @property
    def fact(self) -> tuple[int, str]:
        """The number of its process set, and a line for `compare_collectives`."""
        return self.process_set.process_set_id or 0, f"{self.kind} {self.name} {self.about}"

    def done(self, results: Sequence[tf.Tensor], sent: Sequence[tf.Tensor] = ()) -> list[tf.Tensor]:
        """Return the results, by which sessions know that a run needs this operation.

        Args:
            results: the tensors.
            sent: for a reduction, what a worker sends zeros of after `join`.
        """
        known = collective_names.here()
        marked = []
        for result in results:
            with on_device_of(result):
                marked.append(tf.identity(result, "done"))
            known.facts[marked[-1].op.name] = self.fact
        if sent:
            known.reductions.setdefault(self.fact, []).append((tuple(marked), tuple(sent)))
        known.needed.clear()
        return marked

    def swap(self, parts: Sequence[tf.Tensor], shape: tf.TensorShape) -> list[tf.Tensor]:
        """Send each worker its part; return the parts for this one, by rank.

        Args:
            parts: one for each worker of the group.
            shape: that of all parts, as far as it is known.
        """
        group = self.group
        dtype = parts[group.rank].dtype.base_dtype
        sends = [group.put(self.queue, rank, [parts[rank]]) for rank in group.others]
        taken = [
            parts[rank] if rank == group.rank else group.take(self.queue, rank, [dtype], [shape])[0]
            for rank in range(group.size)
        ]
        # Whoever needs a part sends: a shape that is known is a constant, which waits for nothing.
        with on_device(group.device()), tf.control_dependencies(sends):
            return [tf.identity(part) for part in taken]


def begin(
    kind: str, name: str | None, default: str, process_set: ProcessSet, about: str, *, ignore_scope: bool = False
) -> Call:
    """Return a new operation of the current graph, under a name that no other one of its process set has.

    Args:
        kind: see `Call`.
        name: the name, below that of the current scope.
        default: the same if ``name`` is None.
        process_set: the workers that take part.
        about: see `Call`.
        ignore_scope: pair by the name alone.

    Raises:
        ConfigError: The process set is not registered, or this worker is not one of it.
        GraphBuildError: Operations run eagerly, or the graph is that of a function.
    """
    _check_graph(kind)
    if hasattr(tf.get_default_graph(), "outer_graph"):
        raise GraphBuildError(
            f"hvd.{kind} got the graph of a function: expected that of a session; call it outside of tf.cond and "
            "tf.while_loop, or call tf.disable_control_flow_v2() first"
        )
    group = current().group_of(process_set)
    with tf.name_scope(name or default) as scope:
        full = scope.rstrip("/")
    wanted = (name or default) if ignore_scope else full
    known, number = collective_names.here(), process_set.process_set_id or 0
    unique, count = wanted, 0
    while (number, f"{kind}/{unique}") in known.names:
        count += 1
        unique = f"{wanted}_{count}"
    known.names.add((number, f"{kind}/{unique}"))
    return Call(kind, unique, process_set, group, about)


def _check_graph(kind: str) -> None:
    if tf.executing_eagerly():
        raise GraphBuildError(
            f"hvd.{kind.lower()} got no graph: expected one, as with tf.Graph().as_default(); tpack.horovod is for "
            "graph mode"
        )


def name_of(kind: str, *tensors: tf.Tensor) -> str:
    """Return the name of an operation on tensors that got none."""
    _check_graph(kind)
    return re.sub("[^a-zA-Z0-9_]", "_", "_".join([f"Horovod{kind}", *dict.fromkeys(each.name for each in tensors)]))


def about_tensors(tensors: Sequence[tf.Tensor], *more: object, rows_differ: bool = False) -> str:
    """Return dtypes and shapes of tensors, and more, as text; without the number of rows if that differs."""
    shapes = (f"{each.dtype.base_dtype.name} {_rows(each.shape) if rows_differ else each.shape}" for each in tensors)
    return " ".join([", ".join(shapes), *map(str, more)])


def about_factors(prescale: float, postscale: float) -> list[str]:
    """Return factors as text, unless they are 1."""
    return [] if (prescale, postscale) == (1.0, 1.0) else [f"times {prescale!r} before and {postscale!r} after"]


def _rows(shape: tf.TensorShape) -> str:
    return "rows of an unknown shape" if shape.rank is None else f"rows of {shape[1:]}"


def scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    """Multiply by a factor: integers in float64, and 16 bits in float32."""
    if factor == 1.0:
        return tensor
    dtype = tensor.dtype.base_dtype
    wide = tf.float64 if dtype.is_integer else tf.float32 if dtype.size == 2 else dtype
    return tf.cast(tf.cast(tensor, wide) * tf.cast(factor, wide), dtype)


def any_rows(shape: tf.TensorShape) -> tf.TensorShape:
    """Return a shape without its number of rows."""
    return tf.TensorShape(None) if shape.rank is None else tf.TensorShape([None]).concatenate(shape[1:])
