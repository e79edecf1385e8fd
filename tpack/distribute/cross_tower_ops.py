"""The contract of cross-tower operations: reduce and broadcast values of several devices.

A strategy has one of these and calls it in the cross-tower context. Where a `Reducer` takes K lists of N gradients and
gives the results to the same towers, these take the values of a strategy and say for each where its result goes. A
subclass defines how one value, and how many at once, are reduced.
"""

import abc
from collections.abc import Sequence
from typing import Any

from tpack.distribute.aggregation import reduce_op_of
from tpack.distribute.contributions import copy_to_device
from tpack.distribute.destinations import get_devices_from, validate_destinations
from tpack.distribute.values import DistributedValues, Mirrored, PerDevice
from tpack.errors import ConfigError

ValueDestinationPairs = Sequence[tuple[Any, Any]]


class CrossTowerOps(abc.ABC):
    """Base of algorithms for reduction and broadcasting.

    Destinations are a device, a list of devices, a variable (mirrored or not), a tensor, or a value of several devices:
    the result lies on the same devices.

    Source:
        The class of this name in the seed's ``cross_tower_ops``, whose hooks for subclasses are the same.
    """

    def reduce(self, aggregation: Any, per_device_value: Any, destinations: Any) -> Mirrored:
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

    def batch_reduce(self, aggregation: Any, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        """Reduce several values at once, each to its own destinations.

        Args:
            aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.
            value_destination_pairs: (value, destinations) pairs as for `reduce`.

        Returns:
            The results in the order of the pairs.

        Shapes:
            As those of the values.

        Raises:
            ConfigError: The pairs are no list or tuple of tuples of two, or as for `reduce`.
            ReductionError: As for `reduce`.

        Source:
            The seed's method of this name.
        """
        reduce_op_of(aggregation)
        if not isinstance(value_destination_pairs, list | tuple):
            raise ConfigError(f"wanted a list or tuple of (value, destinations), got {value_destination_pairs!r}")
        pairs = []
        for pair in value_destination_pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigError(f"wanted (value, destinations) as each element, got {pair!r}")
            pairs.append((_as_values(pair[0]), pair[1]))
            validate_destinations(pair[1])
        return self._batch_reduce(aggregation, pairs)

    def broadcast(self, tensor: Any, destinations: Any) -> Mirrored:
        """Copy a tensor to each device of the destinations.

        Args:
            tensor: a tensor, ``IndexedSlices``, a variable or a number.
            destinations: where the copies go.

        Returns:
            The copies.

        Shapes:
            As that of the tensor.

        Raises:
            ConfigError: The tensor is a value of several devices, or the destinations are of another kind or empty.

        Source:
            The seed's method of this name.
        """
        if isinstance(tensor, DistributedValues):
            raise ConfigError(f"wanted one tensor to broadcast, got {tensor!r}, which has one for each of its devices")
        validate_destinations(destinations)
        return self._broadcast(tensor, destinations)

    @abc.abstractmethod
    def _reduce(self, aggregation: Any, per_device_value: DistributedValues, destinations: Any) -> Mirrored:
        """Reduce one value; the arguments were checked."""

    @abc.abstractmethod
    def _batch_reduce(
        self, aggregation: Any, value_destination_pairs: Sequence[tuple[DistributedValues, Any]]
    ) -> list[Mirrored]:
        """Reduce several values; the arguments were checked."""

    def _broadcast(self, tensor: Any, destinations: Any) -> Mirrored:
        return Mirrored({device: copy_to_device(tensor, device) for device in get_devices_from(destinations)})


def _as_values(value: Any) -> DistributedValues:
    """Return a value of several devices as it is, and a tensor as that of its device."""
    if isinstance(value, DistributedValues):
        return value
    if isinstance(value, list | tuple):
        raise ConfigError(
            f"wanted a value of several devices or a tensor to reduce, got the {type(value).__name__} {value!r}"
        )
    if not hasattr(value, "device"):
        raise ConfigError(
            f"wanted a value of several devices or a tensor to reduce, got {value!r}, which has no device"
        )
    return PerDevice({value.device: value})
