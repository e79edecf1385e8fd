"""Measure one candidate in a process of its own, with a limit on its time, whatever happens to that process.

What is measured (`Workload`), how (`MeasuringOptions`) and what came out (`Measurement`, a row of the table by which a
reduction is chosen) is plain data, so that it can be sent to another process and kept in a file.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf
from tabulate import tabulate

from tpack.errors import ConfigError, ReductionError
from tpack.tower.devices import resolve_device
from tpack.utils.python_child import ChildError, python_child
from tpack.utils.validation import check_arguments

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
"""Those that are the fastest on some machine. Each costs the start of a process, so the hopeless are not among them."""

_HEADERS = ("reducer", "ms a step", "over the best", "graph ops", "build s", "MB a device", "hops", "off by", "error")

DTypeLike: TypeAlias = tf.DType | str
"""What TensorFlow takes as a dtype."""

ShapeLike: TypeAlias = tf.TensorShape | Sequence[int | None] | int
"""What TensorFlow takes as a shape."""


@dataclass(frozen=True)
class Workload:
    """The dense gradients of K towers, as plain data; made by `make_workload`.

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
        """Whether there are gradients that have a sum and no mean."""
        return any(tf.as_dtype(dtype).is_integer for dtype in self.dtypes)

    @property
    def is_local(self) -> bool:
        """Whether one process has all the devices, so that it can measure on them."""
        specs = [tf.DeviceSpec.from_string(device) for device in self.devices]
        return all(spec.job in (None, "localhost") and spec.task in (None, 0) for spec in specs)

    @property
    def size_bytes(self) -> int:
        """The bytes of one tower's gradients."""
        sizes = [tf.TensorShape(shape).num_elements() for shape in self.shapes]
        return sum(size * tf.as_dtype(dtype).size for size, dtype in zip(sizes, self.dtypes, strict=True))

    def as_json(self) -> dict[str, object]:
        """Return what `from_json` reads, of lists, texts and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Workload":
        """Return the workload that was written by `as_json`."""
        return cls(tuple(fields["devices"]), tuple(tuple(shape) for shape in fields["shapes"]), tuple(fields["dtypes"]))


def make_workload(
    devices: Sequence[str], shapes: Sequence[ShapeLike], dtypes: DTypeLike | Sequence[DTypeLike] = tf.float32
) -> Workload:
    """Return the workload of some towers and gradients.

    Args:
        devices: one device for each tower. GPUs become logical CPU devices on a machine without GPUs.
        shapes: anything that TensorFlow takes as a shape.
        dtypes: one for each shape, or one for all.

    Returns:
        The same, checked, as plain data.

    Raises:
        ReductionError: There is no tower, or none of its own device; a shape is not fully defined; or there are more or
            fewer dtypes than shapes.
    """
    resolved = tuple(resolve_device(device) for device in devices)
    if not resolved or "" in resolved or len(set(resolved)) < len(resolved):
        raise ReductionError(f"expected a device of its own for each of one or more towers, got {list(devices)}")
    defined = [tf.TensorShape(shape) for shape in shapes]
    for n, shape in enumerate(defined):
        if not shape.is_fully_defined():
            raise ReductionError(f"the shape {shape} of gradient {n} is not fully defined: it cannot be measured")
    several = isinstance(dtypes, Sequence) and not isinstance(dtypes, str)
    names = [tf.as_dtype(dtype).base_dtype.name for dtype in (dtypes if several else [dtypes] * len(defined))]
    if len(names) != len(defined):
        raise ReductionError(
            f"got {len(names)} dtypes for {len(defined)} shapes: expected one for each, or one for all"
        )
    return Workload(resolved, tuple(tuple(shape.as_list()) for shape in defined), tuple(names))


@check_arguments
@dataclass(frozen=True)
class MeasuringOptions:
    """What is measured, and how.

    Attributes:
        candidates: names for `make_candidate`. Those that cannot serve the towers are left out.
        steps: how many steps a round has.
        rounds: how often they are timed; the median counts.
        timeout_secs: how long the whole process may take, its start included. One that hangs, as NCCL can, is killed.
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
            if not getattr(self, name) > 0:
                raise ConfigError(f"expected {name} to be positive, got {getattr(self, name)!r}")

    @property
    def config_digits(self) -> str:
        """The session's configuration as text."""
        config = tf.ConfigProto() if self.session_config is None else self.session_config
        return str(config.SerializeToString(deterministic=True).hex())


@check_arguments
@dataclass(frozen=True)
class Measurement:
    """One candidate's row. With an error, the numbers say nothing.

    Attributes:
        name: the candidate.
        secs: seconds a step, one number a round.
        graph_ops: operations that the reduction added to the graph.
        build_secs: seconds that adding them took.
        bytes_per_device: bytes that the busiest device sends or receives in one step.
        hops: copies between devices that have to happen one after the other.
        error: what went wrong; empty if nothing did.
        deviation: how far a gradient of the first step that a user's reducer gives is from the right one at most, over
            the largest right entry. One of tpack's that is wrong at all has an error.
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
        """The median over the rounds; infinite where nothing was measured."""
        return median(self.secs) if self.secs and not self.error else float("inf")

    def as_json(self) -> dict[str, object]:
        """Return what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Measurement":
        """Return the measurement that was written by `as_json`.

        Raises:
            TypeError: The fields are others.
            ValueError: A field is of another kind.
        """
        known = dict(fields)
        secs = tuple(float(value) for value in known.pop("secs"))
        return cls(secs=secs, **known)


def measure_candidate(name: str, workload: Workload, options: MeasuringOptions) -> Measurement:
    """Measure a candidate in a new process. Nothing that goes wrong there is raised; it is the row's error.

    Args:
        name: the candidate.
        workload: the towers and their gradients.
        options: how to measure.

    Returns:
        The candidate's row.
    """
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
    """Return the rows, the fastest first and those with errors last."""
    return tuple(sorted(rows, key=lambda row: row.median_secs))


def format_table(rows: Sequence[Measurement]) -> str:
    """Return a table of the rows, the fastest first. One with an error has no numbers."""
    ordered = sorted_rows(rows)
    best = ordered[0].median_secs if ordered else 0.0
    told = {"off by": any(row.deviation for row in rows), "error": any(row.error for row in rows)}
    columns = [n for n, header in enumerate(_HEADERS) if told.get(header, True)]
    lines = [[_cells(row, best)[n] for n in columns] for row in ordered]
    return tabulate(lines, headers=[_HEADERS[n] for n in columns], floatfmt=".2f")


def _cells(row: Measurement, best: float) -> tuple[object, ...]:
    if row.error:
        return (row.name, *[None] * (len(_HEADERS) - 2), row.error)
    milliseconds, moved = row.median_secs * 1e3, row.bytes_per_device / MEGABYTE
    ratio = row.median_secs / best if best else 1.0
    off_by = f"{row.deviation:.0%}" if row.deviation else ""
    return (row.name, milliseconds, ratio, row.graph_ops, row.build_secs, moved, row.hops, off_by, row.error)
