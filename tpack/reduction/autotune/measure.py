"""Measure one candidate in a separate process with a timeout, and count its communication volume in the graph.

The gradients (`Workload`), the options (`MeasuringOptions`) and the result (`Measurement`, a row of the table from
which a reduction is chosen) are plain data, so that they can be sent to another process and stored in a file.

A tensor travels once to each device that reads it, however many operations read it there. So the bytes of any reducer,
wrapped or composed, can be counted before a run. Operations that communicate at run time, collectives and NCCL, have no
edges in the graph and count nothing; use `ring_cost` for them. Between CPU devices of one process transfers share
memory and are free, so times there follow the memory traffic instead.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf
from tabulate import tabulate

from tpack.errors import ReductionError
from tpack.tower.devices import resolve_device
from tpack.tower.grads import Gradient, gradient_parts
from tpack.utils.python_child import ChildError, python_child
from tpack.utils.validation import check_arguments, check_number, mismatch

_WORKER = (sys.executable, "-m", "tpack.reduction.autotune.worker")
MEGABYTE = 1e6
LIKELY_CANDIDATES = (
    "one_device",
    "round_robin",
    "hierarchical",
    "pscpu",
    "one_device+small",
    "round_robin+small",
    "hierarchical+buckets",
    "psgpu+small",
    "xring+small",
    "nccl",
    "nccl+packs",
)
"""Those that are the fastest on some machine; each costs the start of a process."""

_HEADERS = ("reducer", "ms a step", "over the best", "graph ops", "build s", "MB a device", "hops", "off by", "error")

DTypeLike: TypeAlias = tf.DType | str
"""A dtype for TensorFlow."""

ShapeLike: TypeAlias = tf.TensorShape | Sequence[int | None] | int
"""A shape for TensorFlow."""


@dataclass(frozen=True)
class Workload:
    """The dense gradients of K towers as plain data, from `make_workload`.

    Attributes:
        devices: the K devices, by their canonical names.
        shapes: N shapes.
        dtypes: N names of dtypes.
    """

    devices: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @property
    def has_integers(self) -> bool:
        """Whether there are integer gradients, which have a sum but not a mean."""
        return any(tf.as_dtype(dtype).is_integer for dtype in self.dtypes)

    @property
    def is_local(self) -> bool:
        """Whether all devices belong to one process, which can measure on them."""
        specs = [tf.DeviceSpec.from_string(device) for device in self.devices]
        return all(spec.job in (None, "localhost") and spec.task in (None, 0) for spec in specs)

    @property
    def size_bytes(self) -> int:
        """The bytes of one tower's gradients."""
        sizes = [tf.TensorShape(shape).num_elements() for shape in self.shapes]
        return sum(size * tf.as_dtype(dtype).size for size, dtype in zip(sizes, self.dtypes, strict=True))

    def as_json(self) -> dict[str, object]:
        """Return a dict for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Workload":
        """Return the workload from `as_json`."""
        return cls(tuple(fields["devices"]), tuple(tuple(shape) for shape in fields["shapes"]), tuple(fields["dtypes"]))


def make_workload(
    devices: Sequence[str], shapes: Sequence[ShapeLike], dtypes: DTypeLike | Sequence[DTypeLike] = tf.float32
) -> Workload:
    """Return the checked workload of some towers and gradients.

    Args:
        devices: the device of each tower. GPUs become logical CPU devices on a machine without GPUs.
        shapes: anything that TensorFlow takes as a shape.
        dtypes: one per shape, or one for all.

    Raises:
        ReductionError: There is no tower, or two share a device; a shape is not fully defined; or the numbers of dtypes
            and shapes differ.
    """
    resolved = tuple(resolve_device(device) for device in devices)
    if not resolved or "" in resolved or len(set(resolved)) < len(resolved):
        raise ReductionError(mismatch("the reduction", "devices", list(devices), "a device of its own for each tower"))
    defined = [tf.TensorShape(shape) for shape in shapes]
    for n, shape in enumerate(defined):
        if not shape.is_fully_defined():
            raise ReductionError(f"gradient {n} has shape {shape}: expected a fully defined shape to measure")
    several = isinstance(dtypes, Sequence) and not isinstance(dtypes, str)
    names = [tf.as_dtype(dtype).base_dtype.name for dtype in (dtypes if several else [dtypes] * len(defined))]
    if len(names) != len(defined):
        raise ReductionError(f"got {len(names)} dtypes for {len(defined)} shapes: expected one for each, or for all")
    return Workload(resolved, tuple(tuple(shape.as_list()) for shape in defined), tuple(names))


@check_arguments
@dataclass(frozen=True)
class MeasuringOptions:
    """The candidates and the parameters of a measurement.

    Attributes:
        candidates: names for `make_candidate`. Those that do not support the towers are left out.
        steps: the number of steps per round.
        rounds: the number of timed rounds; the median counts.
        timeout_secs: the limit of the whole process, its start included. One that hangs, as NCCL can, is killed.
        session_config: the ``ConfigProto`` of the session that will train, or None.
        worker: the command of the measuring process.

    Raises:
        ConfigError: A number is not positive.
    """

    candidates: Sequence[str] = LIKELY_CANDIDATES
    steps: int = 5
    rounds: int = 3
    timeout_secs: float = 120.0
    session_config: tf.ConfigProto | None = None
    worker: Sequence[str] = _WORKER

    def __post_init__(self) -> None:
        for name in ("steps", "rounds", "timeout_secs"):
            check_number(self, name, getattr(self, name), low=0, is_low_allowed=False)

    @property
    def config_digits(self) -> str:
        """The session's configuration as text."""
        config = tf.ConfigProto() if self.session_config is None else self.session_config
        return str(config.SerializeToString(deterministic=True).hex())


@check_arguments
@dataclass(frozen=True)
class Measurement:
    """One candidate's row. With an error, the numbers have no meaning.

    Attributes:
        name: the candidate.
        secs: seconds per step, one number per round.
        graph_ops: operations that the reduction added to the graph.
        build_secs: seconds to add them.
        bytes_per_device: bytes that the busiest device sends or receives in one step.
        hops: dependent copies between devices.
        error: the error, or empty text.
        deviation: the largest error of a gradient in the first step of a user's reducer, relative to the right value.
            A reducer of tpack with a wrong result has an error instead.
    """

    name: str
    secs: tuple[float, ...] = ()
    graph_ops: int = 0
    build_secs: float = 0.0
    bytes_per_device: float = 0.0
    hops: int = 0
    error: str = ""
    deviation: float = 0.0

    @property
    def median_secs(self) -> float:
        """The median over the rounds; infinite without a measurement."""
        return median(self.secs) if self.secs and not self.error else float("inf")

    def as_json(self) -> dict[str, object]:
        """Return a dict for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Measurement":
        """Return the measurement from `as_json`; raise a TypeError or ValueError for other fields."""
        known = dict(fields)
        secs = tuple(float(value) for value in known.pop("secs"))
        return cls(secs=secs, **known)


def measure_candidate(name: str, workload: Workload, options: MeasuringOptions) -> Measurement:
    """Measure a candidate in a new process and return its row; a failure there becomes the row's error."""
    request = {
        "candidate": name,
        "workload": workload.as_json(),
        "steps": options.steps,
        "rounds": options.rounds,
        "session_config": options.config_digits,
    }
    # The new process finds modules where this one does.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONPATH": path}
    try:
        answer = python_child(options.worker, request, timeout_secs=options.timeout_secs, environment=environment)
        return Measurement.from_json(answer)
    except ChildError as error:
        return Measurement(name, error=str(error))
    except (ValueError, TypeError, KeyError) as error:
        return Measurement(name, error=f"an answer that cannot be read: {error}")


def sorted_rows(rows: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the rows, the fastest first and errors last."""
    return tuple(sorted(rows, key=lambda row: row.median_secs))


def format_table(rows: Sequence[Measurement]) -> str:
    """Return a table of the rows, the fastest first; rows with errors have no numbers."""
    ordered = sorted_rows(rows)
    best = ordered[0].median_secs if ordered else 0.0
    is_used = {"off by": any(row.deviation for row in rows), "error": any(row.error for row in rows)}
    columns = [n for n, header in enumerate(_HEADERS) if is_used.get(header, True)]
    lines = [[_cells(row, best)[n] for n in columns] for row in ordered]
    return tabulate(lines, headers=[_HEADERS[n] for n in columns], floatfmt=".2f")


def _cells(row: Measurement, best: float) -> tuple[object, ...]:
    if row.error:
        return (row.name, *[None] * (len(_HEADERS) - 2), row.error)
    milliseconds, moved = row.median_secs * 1e3, row.bytes_per_device / MEGABYTE
    ratio = row.median_secs / best if best else 1.0
    off_by = f"{row.deviation:.0%}" if row.deviation else ""
    return (row.name, milliseconds, ratio, row.graph_ops, row.build_secs, moved, row.hops, off_by, row.error)


class Traffic(NamedTuple):
    """The bytes that one device receives and sends in one step."""

    received: int = 0
    sent: int = 0


class TrafficReport(NamedTuple):
    """The transfers of a reduction.

    Attributes:
        devices: the bytes by device, for devices that receive or send any.
        num_transfers: the number of tensors that move between devices.
        chain_length: the longest sequence of dependent transfers.
    """

    devices: dict[str, Traffic]
    num_transfers: int
    chain_length: int

    @property
    def bytes_moved(self) -> int:
        """The bytes that the busiest device receives, or sends if that is more."""
        return max((max(traffic) for traffic in self.devices.values()), default=0)


@check_arguments
def count_traffic(tower_grads: Sequence[Sequence[Gradient]], reduced: Sequence[Sequence[Gradient]]) -> TrafficReport:
    """Count the transfers between devices from gradients to their reduction.

    Args:
        tower_grads: the argument of ``Reducer.reduce``.
        reduced: its result.

    Shapes:
        tower_grads, reduced: K x N gradients, whose operations are all on named devices.

    Raises:
        ReductionError: A tensor that moves has an unknown shape.

    Source:
        The partition of graphs by device in TensorFlow.
    """
    sources = {part.op for part in _parts(tower_grads)}
    moved: dict[tuple[str, str], tf.Tensor] = {}
    chains = dict.fromkeys(sources, 0)
    for operation in _in_order([part.op for part in _parts(reduced)], sources):
        chains[operation] = 0
        for tensor in operation.inputs:
            is_transfer = tensor.device != operation.device
            if is_transfer:
                moved[tensor.name, operation.device] = tensor
            chains[operation] = max(chains[operation], chains[tensor.op] + is_transfer)
    return TrafficReport(_by_device(moved), len(moved), max(chains.values(), default=0))


def _in_order(operations: Sequence[tf.Operation], known: set[tf.Operation]) -> Iterator[tf.Operation]:
    """Yield ``operations`` and all before them up to ``known``, each after its inputs."""
    # Without recursion: graphs are deeper than Python's stack.
    done = set(known)
    waiting = list(operations)
    while waiting:
        before = [tensor.op for tensor in waiting[-1].inputs if tensor.op not in done]
        if before and waiting[-1] not in done:
            waiting.extend(before)
            continue
        operation = waiting.pop()
        if operation not in done:
            done.add(operation)
            yield operation


def _by_device(moved: Mapping[tuple[str, str], tf.Tensor]) -> dict[str, Traffic]:
    """Return the bytes by device of tensors, given by name and destination."""
    devices: dict[str, Traffic] = {}
    for (_, destination), tensor in moved.items():
        size = tensor.shape.num_elements()
        if size is None:
            raise ReductionError(f"count_traffic got {tensor.name} of shape {tensor.shape}: expected known shapes")
        size_bytes = size * tensor.dtype.size
        source, target = (devices.get(device, Traffic()) for device in (tensor.device, destination))
        devices[tensor.device] = source._replace(sent=source.sent + size_bytes)
        devices[destination] = target._replace(received=target.received + size_bytes)
    return devices


def _parts(towers: Sequence[Sequence[Gradient]]) -> list[tf.Tensor]:
    return [part for tower in towers for grad in tower for part in gradient_parts(grad)]


class ReductionCost(NamedTuple):
    """The cost of one all-reduce over links that send and receive at the same time.

    Attributes:
        bytes_moved: the bytes that the busiest device receives, or sends if that is more.
        latency_steps: the number of consecutive steps of one message.
    """

    bytes_moved: float
    latency_steps: int


def ring_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of a ring: the least bytes of any all-reduce, and the most steps.

    TensorFlow's own collective operations are a ring between CPU devices.

    Source:
        Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    return ReductionCost(2 * (num_towers - 1) / num_towers * size_bytes, 2 * (num_towers - 1))
