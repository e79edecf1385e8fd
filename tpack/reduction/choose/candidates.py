"""The candidates among which a reduction is chosen by measurement, each known by a text that any process understands.

A candidate's name is that of an algorithm, or ``algorithm+packing``. Which candidates fit some devices is not written
down a second time here: each algorithm is tried on tiny gradients in a graph that is thrown away, and its own limits
decide.

What a reduction is measured on: where the towers are, and the shapes and dtypes of their gradients.

It is plain data, so that it can be sent to another process and be the key of a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.names import make_reducer
from tpack.reduction.wrappers.buckets import BucketReducer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import AggregateSmallTensorPackingReducer, ConcatAndSplitPackingReducer
from tpack.tower.devices import resolve_device

_PACKINGS: dict[str, Callable[[Reducer], Reducer]] = {
    "packs": lambda inner: GradientPackingReducer(inner, 8),
    "concat": lambda inner: ConcatAndSplitPackingReducer(inner, 8),
    "small": AggregateSmallTensorPackingReducer,
    "buckets": lambda inner: BucketReducer(inner, 4 * 2**20),
}
PACKINGS = tuple(_PACKINGS)
"""The ways to pack that a candidate's name can have: 8 packs, concatenated and split in 8, small tensors together
(tensors up to 1 MiB), buckets of 4 MiB."""

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


def make_candidate(name: str, devices: Sequence[str]) -> Reducer:
    """Return the reducer that a candidate's name stands for.

    Args:
        name: ``"algorithm"`` or ``"algorithm+packing"``.
        devices: the device of each tower.

    Returns:
        A new reducer.

    Shapes:
        devices: K.

    Raises:
        ConfigError: There is no such algorithm or packing.
        ReductionError: The algorithm cannot serve this number of towers.

    Source:
        tpack's own.
    """
    algorithm, packing = _parse(name)
    inner = make_reducer(algorithm, devices)
    return _PACKINGS[packing](inner) if packing else inner


def fitting_candidates(names: Sequence[str], devices: Sequence[str], dtypes: Sequence[str]) -> tuple[str, ...]:
    """Return those candidates that can serve such towers and gradients, in the order in which they were given.

    Args:
        names: candidates.
        devices: the device of each tower.
        dtypes: the dtypes of the gradients.

    Returns:
        Those of ``names`` whose algorithm takes tiny gradients of these dtypes.

    Shapes:
        names: any number; devices: K; dtypes: any number.

    Raises:
        ConfigError: There is no such candidate.

    Source:
        tpack's own.
    """
    return tuple(name for name in names if _fits(name, devices, sorted(set(dtypes))))


def _parse(name: str) -> tuple[str, str]:
    algorithm, plus, packing = name.partition("+")
    if plus and packing not in _PACKINGS:
        raise ConfigError(f"wanted one of {', '.join(PACKINGS)} after the '+' of a candidate, got {name!r}")
    return algorithm, packing


def _fits(name: str, devices: Sequence[str], dtypes: Sequence[str]) -> bool:
    towers = []
    with tf.Graph().as_default():
        for device in devices:
            with tf.device(device):
                towers.append([tf.placeholder(dtype, [2]) for dtype in dtypes])
        op = ReduceOp.SUM if any(grad.dtype.is_integer for grad in towers[0]) else ReduceOp.MEAN
        try:
            make_reducer(_parse(name)[0], devices).reduce(towers, op)
        except ReductionError:
            return False
    return True


@dataclass(frozen=True)
class Workload:
    """The dense gradients of K towers; made by `make_workload`.

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

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` reads, of lists, texts and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Workload":
        """Return the workload that was written by `as_json`."""
        return cls(tuple(fields["devices"]), tuple(tuple(shape) for shape in fields["shapes"]), tuple(fields["dtypes"]))


def make_workload(devices: Sequence[str], shapes: Sequence[Any], dtypes: Any = tf.float32) -> Workload:
    """Return the workload of some towers and gradients.

    Args:
        devices: one device for each tower. GPUs become logical CPU devices on a machine without GPUs.
        shapes: anything that TensorFlow takes as a shape.
        dtypes: one for each shape, or one for all.

    Returns:
        The same, checked, as plain data.

    Shapes:
        devices: K; shapes: N; dtypes: N, or one.

    Raises:
        ReductionError: There is no tower, or none of its own device; a shape is not fully defined; or there are more or
            fewer dtypes than shapes.

    Source:
        tpack's own.
    """
    resolved = tuple(resolve_device(device) for device in devices)
    if not resolved or "" in resolved or len(set(resolved)) < len(resolved):
        raise ReductionError(f"wanted a device of its own for each of one or more towers, got {list(devices)}")
    defined = [tf.TensorShape(shape) for shape in shapes]
    for n, shape in enumerate(defined):
        if not shape.is_fully_defined():
            raise ReductionError(f"the shape {shape} of gradient {n} is not fully defined: it cannot be measured")
    several = isinstance(dtypes, Sequence) and not isinstance(dtypes, str)
    names = [tf.as_dtype(dtype).base_dtype.name for dtype in (dtypes if several else [dtypes] * len(defined))]
    if len(names) != len(defined):
        raise ReductionError(f"got {len(names)} dtypes for {len(defined)} shapes: wanted one for each, or one for all")
    return Workload(resolved, tuple(tuple(shape.as_list()) for shape in defined), tuple(names))
