"""Cross-tower operations: reduce the values of several devices to one, and broadcast it.

A strategy has one of these and calls it in the cross-tower context. Where a `Reducer` takes K lists of N gradients and
gives the results to the same towers, these take the values of a strategy and say for each where its result goes.

A *destination* is a device, several of them, or something that lies on devices already: a variable, one that is
mirrored, the value of several devices, a tensor. What each device *contributes* to a reduction is one tensor: most
often the one that it has; of a list of them (`MapOutput`) their sum, and of anything else a copy on the device.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat import BaseVariable
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
    """Base of algorithms for reduction and broadcasting.

    Destinations are a device, a list of devices, a variable (mirrored or not), a tensor, or a value of several devices:
    the result lies on the same devices.

    Source:
        The class of this name in the seed's ``cross_tower_ops``, whose hooks for subclasses are the same.
    """

    def reduce(self, aggregation: Aggregation, per_device_value: Value, destinations: Destinations) -> Mirrored:
        """Reduce the values of several devices to one, on each device of the destinations.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.
            per_device_value: a value of several devices, or a tensor or variable, which is that of its one device. All
                are dense or all are ``IndexedSlices``, and so is the result.
            destinations: where the result goes.

        Returns:
            The result, the same on every device.

        Shapes:
            As those of the values, which are alike; the rows of ``IndexedSlices`` are those of all devices.

        Raises:
            ConfigError: The aggregation, the value or the destinations are of another kind, or empty.
            ReductionError: The values differ in kind, dtype or shape, integers are to be averaged, or the algorithm
                cannot serve these devices.

        Source:
            The seed's method of this name.
        """
        reduce_op_of(aggregation)
        value = _as_values(per_device_value)
        validate_destinations(destinations)
        return self._reduce(aggregation, value, destinations)

    def batch_reduce(
        self, aggregation: Aggregation, value_destination_pairs: Sequence[tuple[Value, Destinations]]
    ) -> list[Mirrored]:
        """Reduce several values at once, each to its own destinations.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.
            value_destination_pairs: (value, destinations) pairs as for `reduce`.

        Returns:
            The results in the order of the pairs.

        Raises:
            ConfigError: The pairs are no list or tuple of tuples of two, or as for `reduce`.
            ReductionError: As for `reduce`.

        Source:
            The seed's method of this name.
        """
        reduce_op_of(aggregation)
        if not isinstance(value_destination_pairs, list | tuple):
            raise ConfigError(f"expected a list or tuple of (value, destinations), got {value_destination_pairs!r}")
        pairs = []
        for pair in value_destination_pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigError(f"expected (value, destinations) as each element, got {pair!r}")
            pairs.append((_as_values(pair[0]), pair[1]))
            validate_destinations(pair[1])
        return self._batch_reduce(aggregation, pairs)

    def broadcast(self, tensor: Value, destinations: Destinations) -> Mirrored:
        """Copy a tensor to each device of the destinations.

        Args:
            tensor: a tensor, ``IndexedSlices``, a variable or a number.
            destinations: where the copies go.

        Returns:
            The copies.

        Raises:
            ConfigError: The tensor is a value of several devices, or the destinations are of another kind or empty.

        Source:
            The seed's method of this name.
        """
        if isinstance(tensor, DistributedValues):
            raise ConfigError(
                f"expected one tensor to broadcast, got {tensor!r}, which has one for each of its devices"
            )
        validate_destinations(destinations)
        return self._broadcast(tensor, destinations)

    @abc.abstractmethod
    def _reduce(
        self, aggregation: Aggregation, per_device_value: DistributedValues, destinations: Destinations
    ) -> Mirrored:
        """Reduce one value; the arguments were checked."""

    @abc.abstractmethod
    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        """Reduce several values; the arguments were checked."""

    def _broadcast(self, tensor: PlainValue, destinations: Destinations) -> Mirrored:
        return Mirrored({device: copy_to_device(tensor, device) for device in get_devices_from(destinations)})


@check_arguments
class ReductionToOneDeviceCrossTowerOps(CrossTowerOps):
    """Reduce to one device first and copy the result from there; several values one after the other.

    Args:
        reduce_to_device: where to reduce; by default on the first device of each value's destinations.
        accumulation_fn: sums a list of dense tensors; by default they are added in a fixed order, those of 16 bits in
            float32. ``IndexedSlices`` are concatenated and never given to it.

    Raises:
        ConfigError: The name of the device cannot be read.
        DeviceError: The machine has GPUs, and not this one.

    Source:
        The class of this name in the seed's ``cross_tower_ops``.
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
    """Reduce what several devices brought, on one device.

    Args:
        contributions: the summands. A mean is over the values that they were made of.
        op: sum or mean.
        device: where.
        accumulation_fn: as for `ReductionToOneDeviceCrossTowerOps`.

    Returns:
        A tensor, or ``IndexedSlices`` if the summands are.

    Shapes:
        As those of the summands, which are alike; the rows of ``IndexedSlices`` are those of all devices.

    Raises:
        ReductionError: The summands differ, or integers are to be averaged.

    Source:
        ``_simple_reduce`` of the seed's ``cross_tower_ops``.
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
    """Tell whether a destination names any device.

    Args:
        destinations: what is asked about, of a kind that `validate_destinations` accepts.

    Returns:
        Whether there is a device; false for an empty list or name, and for a variable that nobody placed.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    if isinstance(destinations, DistributedValues):
        return bool(destinations.devices)
    if isinstance(destinations, _PLACED):
        return bool(destinations.device)
    if isinstance(destinations, list | tuple):
        return bool(destinations) and all(map(check_destinations, destinations))
    return bool(destinations)


def validate_destinations(destinations: Destinations) -> None:
    """Check that something is a destination.

    Args:
        destinations: a device, a list of devices, a variable, a tensor, or a `DistributedValues`, mirrored variables
            among them.

    Raises:
        ConfigError: It is of another kind, or names no device.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    names = destinations if isinstance(destinations, list | tuple) else []
    if not isinstance(destinations, (DistributedValues, *_PLACED, str, list, tuple)) or not all(
        isinstance(name, str) for name in names
    ):
        raise ConfigError(
            "expected a device, a list of devices, a variable, a tensor or a value of several devices as the "
            f"destinations, got {destinations!r}"
        )
    if not check_destinations(destinations):
        hint = ": it has no device, create it under tf.device" if isinstance(destinations, _PLACED) else ""
        raise ConfigError(f"destinations can not be empty, got {destinations!r}{hint}")


def get_devices_from(destinations: Destinations) -> list[str]:
    """Return the devices that a destination stands for.

    Args:
        destinations: what `validate_destinations` accepts.

    Returns:
        Their names as `device_key` spells them, in the order of the destination, each once. Names of GPUs become
        logical CPU devices on a machine without GPUs.

    Raises:
        ConfigError: A name cannot be read.
        DeviceError: The machine has GPUs, and not one that is named.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    if isinstance(destinations, DistributedValues):
        return _unique(map(device_key, destinations.devices))
    if isinstance(destinations, _PLACED):
        return [device_key(destinations.device)]
    names = [destinations] if isinstance(destinations, str) else destinations
    return _unique(resolve_together(names))


def devices_for(colocate_with: Destinations | None, devices: Sequence[str]) -> list[str]:
    """Return the devices of a variable that is created.

    Args:
        colocate_with: what `colocate_vars_with` was given; None for nothing.
        devices: those of a variable that is not to be anywhere else.

    Raises:
        ConfigError: It is something else.
    """
    if colocate_with is None:
        return list(devices)
    validate_destinations(colocate_with)
    return get_devices_from(colocate_with)


class Contributions(NamedTuple):
    """The summands of a reduction by device, and the number of values that they were made of."""

    by_device: dict[str, TensorOrSlices]
    num_values: int

    @property
    def is_plain(self) -> bool:
        """Whether each device brings one value, so that the mean over devices is that over the values."""
        return self.num_values == len(self.by_device)


def gather_contributions(value: DistributedValues) -> Contributions:
    """Return what each device brings; a device with an empty list brings nothing.

    Args:
        value: what is to be reduced.

    Raises:
        ConfigError: No device brings anything.
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
        raise ConfigError(f"expected a value to reduce, got {value!r}, which is empty on every device")
    return Contributions(by_device, num_values)


def copy_to_device(value: PlainValue, device: str) -> TensorOrSlices:
    """Return a value on a device: itself if it is there.

    Args:
        value: a tensor, ``IndexedSlices``, a variable, or a number or array.
        device: its name as `device_key` spells it; empty where nothing is asked for.

    Returns:
        A tensor, or ``IndexedSlices``.

    Raises:
        ConfigError: It is something else.
    """
    with on_device(device):
        value = as_dense_or_slices(value)
        if device_key(value.device) == device:
            return value
        return map_gradient_parts(tf.identity, value)


def as_dense_or_slices(value: PlainValue) -> TensorOrSlices:
    """Return a tensor or ``IndexedSlices`` of tensors as they are, and a variable, number or array as a tensor.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(value, tf.Tensor):
        return value
    try:
        return _of_tensors(value) if is_sparse(value) else tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"expected a tensor, IndexedSlices, a variable or a number, got {value!r}") from error


def _as_values(value: Value) -> DistributedValues:
    """Return a value of several devices as it is, and a tensor as that of its device."""
    if isinstance(value, DistributedValues):
        return value
    wanted = "expected a value of several devices or a tensor to reduce, got"
    if isinstance(value, list | tuple):
        raise ConfigError(f"{wanted} the {type(value).__name__} {value!r}")
    device = getattr(value, "device", None)
    if device is None:
        raise ConfigError(f"{wanted} {value!r}, which has no device")
    return PerDevice({device: value})


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _of_tensors(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Return slices whose indices and shape, which users write as lists, are tensors."""
    if all(isinstance(part, tf.Tensor) for part in gradient_parts(slices)):
        return slices
    return map_gradient_parts(tf.convert_to_tensor, slices)


def _sum_on_device(parts: Sequence[PlainValue], device: str) -> TensorOrSlices:
    placed = [copy_to_device(part, device) for part in parts]
    if len(placed) == 1:
        return placed[0]
    with on_device(device):
        return sum_column(placed, ReduceOp.SUM)
