"""Cross-tower operations: reduce the values of several devices to one, and broadcast it.

A strategy calls them in the cross-tower context. A `Reducer` takes K lists of N gradients and returns the results to
the same towers; these take the values of a strategy with a destination for each result.

A *destination* is a device, a list of devices, or something that is on devices already: a variable, a mirrored one, a
value of several devices, a tensor. Each device *contributes* one tensor to a reduction: usually its own; the sum of a
list (`MapOutput`); a copy of anything else.

Source:
    The seed's ``cross_tower_ops``, for all names that it has too.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.distribute.values import (
    Aggregation,
    Destinations,
    DistributedValues,
    MapOutput,
    Mirrored,
    PerDevice,
    PlainValue,
    TensorOrSlices,
    Value,
    reduce_op_of,
)
from tpack.errors import ConfigError
from tpack.reduction.gradients import check_columns
from tpack.reduction.sums import concat_slices, divide, on_device, sum_column, sum_tensors
from tpack.tower.devices import device_key, resolve_device, resolve_together
from tpack.tower.grads import ReduceOp, gradient_parts, is_sparse, map_gradient_parts
from tpack.utils.validation import check_arguments, check_text

AccumulationFn: TypeAlias = Callable[[Sequence[tf.Tensor]], tf.Tensor]

ValueDestinationPairs: TypeAlias = Sequence[tuple[DistributedValues, Destinations]]
_PLACED = (BaseVariable, tf.Tensor, tf.IndexedSlices)


class CrossTowerOps(abc.ABC):
    """Base of algorithms for reduction and broadcasting, whose hooks for subclasses are the seed's."""

    def reduce(self, aggregation: Aggregation, per_device_value: Value, destinations: Destinations) -> Mirrored:
        """Reduce the values of several devices to one, on each device of the destinations.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.
            per_device_value: a value of several devices, or a tensor or variable. All are dense or ``IndexedSlices``,
                as the result.
            destinations: the devices of the result.

        Shapes:
            The shape of the values; the rows of ``IndexedSlices`` are those of all devices.

        Raises:
            ConfigError: The aggregation, the value or the destinations are of another kind, or empty.
            ReductionError: The values differ in kind, dtype or shape, integers are averaged, or the algorithm does not
                support these devices.
        """
        reduce_op_of(aggregation)
        value = _as_values(per_device_value)
        validate_destinations(destinations)
        return self._reduce(aggregation, value, destinations)

    def batch_reduce(
        self, aggregation: Aggregation, value_destination_pairs: Sequence[tuple[Value, Destinations]]
    ) -> list[Mirrored]:
        """Reduce several values at once, each to its own destinations, as `reduce` does.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.
            value_destination_pairs: (value, destinations) pairs as for `reduce`; the results are in their order.

        Raises:
            ConfigError: The pairs are not a list or tuple of tuples of two, or as for `reduce`.
            ReductionError: As for `reduce`.
        """
        reduce_op_of(aggregation)
        if not isinstance(value_destination_pairs, list | tuple):
            raise ConfigError(
                f"batch_reduce got {value_destination_pairs!r}: expected a list or tuple of (value, destinations)"
            )
        pairs = []
        for pair in value_destination_pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigError(f"batch_reduce got the element {pair!r}: expected (value, destinations)")
            pairs.append((_as_values(pair[0]), pair[1]))
            validate_destinations(pair[1])
        return self._batch_reduce(aggregation, pairs)

    def broadcast(self, tensor: Value, destinations: Destinations) -> Mirrored:
        """Copy a tensor, ``IndexedSlices``, a variable or a number to each device of the destinations.

        Raises:
            ConfigError: The tensor is a value of several devices, or the destinations are of another kind or empty.
        """
        if isinstance(tensor, DistributedValues):
            raise ConfigError(
                f"broadcast got {tensor!r}, which has a tensor on each of its devices: expected one tensor"
            )
        validate_destinations(destinations)
        return self._broadcast(tensor, destinations)

    @abc.abstractmethod
    def _reduce(
        self, aggregation: Aggregation, per_device_value: DistributedValues, destinations: Destinations
    ) -> Mirrored:
        """Reduce one value; the arguments are valid."""

    @abc.abstractmethod
    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        """Reduce several values; the arguments are valid."""

    def _broadcast(self, tensor: PlainValue, destinations: Destinations) -> Mirrored:
        return Mirrored({device: copy_to_device(tensor, device) for device in get_devices_from(destinations)})


@check_arguments
class ReductionToOneDeviceCrossTowerOps(CrossTowerOps):
    """Algorithm that reduces on one device and copies the result; several values one after the other.

    Args:
        reduce_to_device: the device; by default the first one of each value's destinations.
        accumulation_fn: sums a list of dense tensors; by default they are added in a fixed order, 16-bit ones in
            float32. ``IndexedSlices`` are concatenated without it.

    Raises:
        ConfigError: The name of the device is malformed.
        DeviceError: The machine has GPUs, but not this one.
    """

    def __init__(self, reduce_to_device: str | None = None, accumulation_fn: AccumulationFn | None = None) -> None:
        if reduce_to_device is not None:
            reduce_to_device = resolve_device(check_text(self, "reduce_to_device", reduce_to_device))
        self._reduce_to_device = reduce_to_device
        self._accumulation_fn = accumulation_fn

    def _reduce(
        self, aggregation: Aggregation, per_device_value: DistributedValues, destinations: Destinations
    ) -> Mirrored:
        devices = get_devices_from(destinations)
        reduced = reduce_on_device(
            gather_contributions(per_device_value),
            reduce_op_of(aggregation),
            devices[0] if self._reduce_to_device is None else self._reduce_to_device,
            self._accumulation_fn,
        )
        return self.broadcast(reduced, devices)

    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        return [self._reduce(aggregation, value, destinations) for value, destinations in value_destination_pairs]


def reduce_on_device(
    contributions: "Contributions", op: ReduceOp, device: str, accumulation_fn: AccumulationFn | None = None
) -> TensorOrSlices:
    """Reduce the contributions of several devices, on one device.

    Args:
        contributions: the summands. A mean is over the values that they were made of.
        op: sum or mean.
        device: the device.
        accumulation_fn: as for `ReductionToOneDeviceCrossTowerOps`.

    Shapes:
        The shape of the summands; the rows of ``IndexedSlices`` are those of all devices.

    Raises:
        ReductionError: The summands differ, or integers are averaged.

    Source:
        ``_simple_reduce`` of the seed.
    """
    column = list(contributions.by_device.values())
    check_columns([[summand] for summand in column], op)
    divisor = op.divisor(contributions.num_values)
    with tf.name_scope("reduce_on_device"), on_device(device):
        if is_sparse(column[0]):
            return concat_slices(column, divisor)
        if accumulation_fn is not None:
            return divide(accumulation_fn(column), divisor)
        return sum_tensors(column, divisor)


def check_destinations(destinations: Destinations) -> bool:
    """Return whether a destination names a device; empty lists and names, and variables without a device, do not."""
    if isinstance(destinations, DistributedValues):
        return bool(destinations.devices)
    if isinstance(destinations, _PLACED):
        return bool(destinations.device)
    if isinstance(destinations, list | tuple):
        return bool(destinations) and all(map(check_destinations, destinations))
    return bool(destinations)


def validate_destinations(destinations: Destinations) -> None:
    """Raise a `ConfigError` unless a value is a destination that names a device."""
    names = destinations if isinstance(destinations, list | tuple) else []
    if not isinstance(destinations, (DistributedValues, *_PLACED, str, list, tuple)) or not all(
        isinstance(name, str) for name in names
    ):
        raise ConfigError(
            f"destinations got {destinations!r}: expected a device, a list of devices, a variable, a tensor or a value "
            "of several devices"
        )
    if not check_destinations(destinations):
        hint = ": it has no device, create it under tf.device" if isinstance(destinations, _PLACED) else ""
        raise ConfigError(f"destinations can not be empty, got {destinations!r}{hint}")


def get_devices_from(destinations: Destinations) -> list[str]:
    """Return the devices of a destination, by their `device_key`, in its order and each once.

    GPUs become logical CPU devices on a machine without GPUs.

    Raises:
        ConfigError: A name is malformed.
        DeviceError: The machine has GPUs, but not one of these.
    """
    if isinstance(destinations, DistributedValues):
        return _unique(map(device_key, destinations.devices))
    if isinstance(destinations, _PLACED):
        return [device_key(destinations.device)]
    names = [destinations] if isinstance(destinations, str) else destinations
    return _unique(resolve_together(names))


def devices_for(colocate_with: Destinations | None, devices: Sequence[str]) -> list[str]:
    """Return the devices of a new variable: those of ``colocate_with`` in `colocate_vars_with`, else the given ones.

    Raises:
        ConfigError: ``colocate_with`` is something else.
    """
    if colocate_with is None:
        return list(devices)
    validate_destinations(colocate_with)
    return get_devices_from(colocate_with)


class Contributions(NamedTuple):
    """Summands of a reduction by device, and the number of values that they were made of."""

    by_device: dict[str, TensorOrSlices]
    num_values: int

    @property
    def is_plain(self) -> bool:
        """Whether each device contributes one value, so that the mean over devices is that over values."""
        return self.num_values == len(self.by_device)


def gather_contributions(value: DistributedValues) -> Contributions:
    """Return the contribution of each device to a reduction; a device with an empty list contributes nothing.

    Raises:
        ConfigError: No device contributes.
    """
    by_device: dict[str, TensorOrSlices] = {}
    num_values = 0
    for device in value.devices:
        brought = value.get(device)
        parts = list(brought.get()) if isinstance(brought, MapOutput) else [brought]
        if parts:
            num_values += len(parts)
            by_device[device_key(device)] = _sum_on_device(parts, device_key(device))
    if not by_device:
        raise ConfigError(f"reduce got {value!r}: expected a value that is not empty on every device")
    return Contributions(by_device, num_values)


def copy_to_device(value: PlainValue, device: str) -> TensorOrSlices:
    """Return a value as a tensor or ``IndexedSlices`` on a device: itself if it is there; an empty name is any device.

    Raises:
        ConfigError: It is not a tensor, ``IndexedSlices``, variable, number or array.
    """
    with on_device(device):
        value = as_dense_or_slices(value)
        if device_key(value.device) == device:
            return value
        return map_gradient_parts(tf.identity, value)


def as_dense_or_slices(value: PlainValue) -> TensorOrSlices:
    """Return a variable, number or array as a tensor, and tensors and ``IndexedSlices`` as they are.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(value, tf.Tensor):
        return value
    try:
        return _of_tensors(value) if is_sparse(value) else tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a strategy got {value!r}: expected a tensor, IndexedSlices, a variable or a number"
        ) from error


def _as_values(value: Value) -> DistributedValues:
    """Return a value of several devices as it is, and a tensor as that of its device."""
    if isinstance(value, DistributedValues):
        return value
    device = None if isinstance(value, list | tuple) else getattr(value, "device", None)
    if device is None:
        raise ConfigError(f"reduce got {value!r}: expected a value of several devices, or a tensor on a device")
    return PerDevice({device: value})


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _of_tensors(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Convert the indices and shape of slices, which users may write as lists, to tensors."""
    if all(isinstance(part, tf.Tensor) for part in gradient_parts(slices)):
        return slices
    return map_gradient_parts(tf.convert_to_tensor, slices)


def _sum_on_device(parts: Sequence[PlainValue], device: str) -> TensorOrSlices:
    placed = [copy_to_device(part, device) for part in parts]
    if len(placed) == 1:
        return placed[0]
    with on_device(device):
        return sum_column(placed, ReduceOp.SUM)
