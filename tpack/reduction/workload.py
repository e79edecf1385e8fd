"""What a reduction is measured on: where the towers are, and the shapes and dtypes of their gradients.

It is plain data, so that it can be sent to another process and be the key of a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.tower.devices import resolve_device


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
