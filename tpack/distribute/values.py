"""Values with one part for each of several devices: different parts (`PerDevice`), or equal ones (`Mirrored`).

A tower works with its device's part. `regroup` joins the parts of all devices, `select_device` takes one device's part,
and `update_on_devices` does both around a function for each device.

Source:
    The seeds ``distribute`` and ``cross_tower_ops``, for all names that they have too.
"""

import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, current_device
from tpack.distribute.contexts import UpdateContext, tower_context_of
from tpack.errors import ConfigError, StrategyError, TowerMismatchError
from tpack.reduction.sums import on_device
from tpack.tower.context import current_frame
from tpack.tower.devices import device_key, resolve_device, resolve_together
from tpack.tower.grads import ReduceOp
from tpack.utils.validation import check_arguments

TensorOrSlices: TypeAlias = tf.Tensor | tf.IndexedSlices

PlainValue: TypeAlias = TensorOrSlices | BaseVariable | np.ndarray | complex
"""A value of one device, a number or an array."""

Aggregation: TypeAlias = tf.VariableAggregation | tf.compat.v2.VariableAggregation
"""An aggregation of towers' values, of the enumeration of TensorFlow 1 or 2, which have equal values."""

Structure: TypeAlias = Any
"""Values in nested lists, tuples, named tuples and dicts, as users' functions take and return them."""

C = TypeVar("C")
K = TypeVar("K")
V = TypeVar("V")

_OPERATORS = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("pow", "rpow", "matmul", "rmatmul", "and", "rand", "or", "ror", "xor", "rxor", "neg", "abs", "invert"),
    *("lt", "le", "gt", "ge", "getitem", "iter"),
)
# By value, which both enumerations share.
_REDUCE_OPS = {tf.VariableAggregation.SUM.value: ReduceOp.SUM, tf.VariableAggregation.MEAN.value: ReduceOp.MEAN}


class Variable(Protocol):
    """A plain variable, or one of several devices, which has the same properties."""

    @property
    def name(self) -> str:
        """The name, with the output of the operation."""

    @property
    def op(self) -> tf.Operation:
        """The operation whose name is the variable's in checkpoints."""

    @property
    def device(self) -> str:
        """The device of the variable, or of its component here."""

    @property
    def dtype(self) -> tf.DType:
        """The dtype."""

    @property
    def shape(self) -> tf.TensorShape:
        """The shape."""


def with_operators(cls: type[C]) -> type[C]:
    """Give a class that TensorFlow can convert to a tensor the operators of tensors; a decorator.

    A class with a method ``_operand`` has the operators of its result.
    """
    for name in _OPERATORS:
        setattr(cls, f"__{name}__", _operator(f"__{name}__"))
    # Above numpy's, so that ``array * value`` is ours too.
    cls.__array_priority__ = 100  # type: ignore[attr-defined]
    return cls


def _operator(name: str) -> Callable[..., object]:
    is_reflected = name.startswith("__r")
    plain_name = name.replace("__r", "__") if is_reflected else name
    function: Callable[..., object] = iter if name == "__iter__" else getattr(operator, plain_name)

    def apply(self: Any, *others: object) -> object:
        operand = self._operand() if hasattr(self, "_operand") else tf.convert_to_tensor(self)
        return function(*others, operand) if is_reflected else function(operand, *others)

    return apply


class DistributedValues:
    """Map from devices to values.

    Args:
        index: the value of each device, by any of the device's names; the order is kept.

    Raises:
        ConfigError: There is no device, or one under two names.
    """

    def __init__(self, index: Mapping[str, Any]) -> None:
        self._index: dict[str, Any] = {device_key(device): value for device, value in index.items()}
        if not self._index or len(self._index) < len(index):
            raise ConfigError(
                f"{type(self).__name__} got values for {list(index)}: expected one or more different devices"
            )

    @property
    def index(self) -> dict[str, Any]:
        """The values by the names of their devices."""
        return dict(self._index)

    @property
    def devices(self) -> list[str]:
        """The devices, in their order."""
        return list(self._index)

    def on_device(self, device: str) -> bool:
        """Return whether there is a value for a device."""
        return self._key(device) is not None

    def get(self, device: str | None = None) -> Any:
        """Return the value of one device, by any of its names.

        None means the device of the current tower or update; across towers, and on a device without a value, the result
        depends on the kind of value.

        Raises:
            StrategyError: There is no value for this device.
        """
        key = self._key_here() if device is None else self._key(device)
        if key is not None:
            return self._index[key]
        if device is None:
            return self._get_cross_tower()
        raise StrategyError(
            f"device {device!r} is not one of {self.devices} that this {type(self).__name__} has values for"
        )

    def _key_here(self) -> str | None:
        """Return the index's name of the device of the current tower or update, or None."""
        device = _current_device()
        return None if device is None else self._key(device)

    def _get_cross_tower(self) -> Any:
        """Return the value for all towers together."""
        raise StrategyError(
            f"{self!r} has another value on each device, and this is none of them: use unwrap() or reduce() of the "
            "strategy"
        )

    def _key(self, device: str) -> str | None:
        """Return the index's name of a device, which may be the stand-in for a GPU."""
        key = device_key(device)
        if key in self._index:
            return key
        if any("GPU" in own for own in self._index):
            # Named by the user: a tower's device may stand in for the one that it is called here.
            stand_ins = dict(zip(resolve_together(self._index), self._index, strict=True))
            return stand_ins.get(key)
        if tf.DeviceSpec.from_string(key).device_type == "GPU":
            key = device_key(resolve_device(key))
        return key if key in self._index else None

    @property
    def is_tensor_like(self) -> bool:
        """Whether all values are tensors."""
        return all(tf.is_tensor(value) for value in self._index.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._index!r})"


Value: TypeAlias = DistributedValues | PlainValue
"""A value of a strategy: of several devices, or plain."""

Destinations: TypeAlias = str | Sequence[str] | DistributedValues | BaseVariable | TensorOrSlices
"""A device, several of them, or something that is on devices already."""


class PerDevice(DistributedValues):
    """Values that differ between devices: of locality T, when the devices are those of the towers."""


@with_operators
class Mirrored(DistributedValues):
    """Values that are equal on all devices: of locality M, V(v) or N; usable like the value of the current device."""

    def _get_cross_tower(self) -> Any:
        return self._index.get(device_key(current_device()), next(iter(self._index.values())))

    def _operand(self) -> Any:
        """Return the operand of operators; numbers and arrays are returned as they are."""
        value = self.get()
        return value if isinstance(value, Number | np.ndarray | np.generic) else tf.convert_to_tensor(self)

    def __bool__(self) -> bool:
        # A tensor refuses, and an operation is true.
        return bool(self.get())

    def _as_graph_element(self) -> tf.Tensor | tf.Operation:
        value = self.get()
        convert = getattr(value, "_as_graph_element", None)
        return value if convert is None else convert()

    def __getattr__(self, name: str) -> Any:
        # TensorFlow and Python inspect objects by names with an underscore.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.get(), name)


def _to_tensor(
    value: Mirrored, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
) -> tf.Tensor:
    return tf.convert_to_tensor(value.get(), dtype=dtype, name=name)


tf.register_tensor_conversion_function(Mirrored, _to_tensor)


@check_arguments
class MapOutput:
    """Several results of one device, possibly none, that are one value to a reduction."""

    def __init__(self, values: Sequence[PlainValue]) -> None:
        self._values = list(values)

    def get(self) -> list[PlainValue]:
        """Return the results."""
        return list(self._values)

    def __repr__(self) -> str:
        return f"MapOutput({self._values!r})"


def regroup(per_device: Mapping[str, Structure], wrap_class: type[DistributedValues] = PerDevice) -> Structure:
    """Turn a map from devices to structures into one structure of values of all devices.

    Args:
        per_device: nested lists, tuples, named tuples and dicts, alike on all devices.
        wrap_class: the class of values that differ between devices: `PerDevice` or `Mirrored`.

    Returns:
        The structure. An object that is the same on all devices stays; the components of a variable become that
        variable.

    Raises:
        ConfigError: There is no device.
        TowerMismatchError: The structures differ, or components of variables are mixed up.
    """
    if not per_device:
        raise ConfigError("regroup got no values: expected those of at least one device")
    values = list(per_device.values())
    first = values[0]
    if isinstance(first, list | tuple):
        _check_alike(per_device, type(first), len)
        parts = [regroup(dict(zip(per_device, part, strict=True)), wrap_class) for part in zip(*values, strict=True)]
        return _sequence_like(first, parts)
    if isinstance(first, dict):
        _check_alike(per_device, type(first), set)
        parts = [(key, regroup({d: v[key] for d, v in per_device.items()}, wrap_class)) for key in first]
        return _like(first, parts)
    return _regroup_leaf(per_device, wrap_class)


def select_device(device: str, structured: Structure) -> Structure:
    """Return nested lists, tuples and dicts with one device's value in place of each `DistributedValues`.

    Raises:
        StrategyError: A value has no part on the device.
    """

    def select(value: object) -> object:
        return value.get(device) if isinstance(value, DistributedValues) else value

    return _map(select, structured)


def select_device_mirrored(device: str, structured: Structure) -> Structure:
    """Return nested lists, tuples and dicts with one device's value in place of each `Mirrored`.

    Raises:
        StrategyError: A value is not mirrored, or has no part on the device.
    """

    def select(value: object) -> object:
        if isinstance(value, DistributedValues) and not isinstance(value, Mirrored):
            raise StrategyError(f"select_device_mirrored got {value!r}: expected mirrored values; use reduce first")
        return value.get(device) if isinstance(value, DistributedValues) else value

    return _map(select, structured)


def reduce_op_of(aggregation: Aggregation) -> ReduceOp:
    """Return the reduction of an aggregation; raise a `ConfigError` unless it is ``SUM`` or ``MEAN``."""
    if not isinstance(aggregation, Aggregation) or aggregation.value not in _REDUCE_OPS:
        raise ConfigError(
            f"aggregation got {aggregation!r}: expected tf.VariableAggregation.SUM or tf.VariableAggregation.MEAN"
        )
    return _REDUCE_OPS[aggregation.value]


def update_on_devices(
    fn: Callable[..., Structure],
    subjects: Mapping[str, tuple[object, ...]],
    args: tuple[Structure, ...],
    kwargs: Mapping[str, Structure],
) -> Structure:
    """Call a function on each device with its subjects and the device's part of the arguments.

    ``subjects`` are the first arguments on each device, such as the component of a variable; the others are `Mirrored`
    or equal everywhere.

    Returns:
        The `regroup` of the results; those that differ are `Mirrored`.

    Raises:
        StrategyError: An argument differs between devices, or has no part on one of them.
    """
    results = {}
    for number, (device, subject) in enumerate(subjects.items()):
        with on_device(device), UpdateContext(device), tf.name_scope(f"update_{number}"):
            own_kwargs = select_device_mirrored(device, dict(kwargs))
            results[device] = fn(*subject, *select_device_mirrored(device, args), **own_kwargs)
    return regroup(results, Mirrored)


def tie_together(changed: Structure) -> Structure:
    """Make each part of a result of `update_on_devices` depend on the changes on all devices."""
    if not isinstance(changed, Mirrored):
        return changed
    tied = {}
    with tf.control_dependencies([getattr(part, "op", part) for part in changed.index.values()]):
        for device, part in changed.index.items():
            with on_device(device):
                tied[device] = tf.no_op() if isinstance(part, tf.Operation) else tf.identity(part)
    return Mirrored(tied)


def _current_device() -> str | None:
    """Return the device of the current update, else that of the tower, else TensorFlow's; None only across towers."""
    frame = current_frame()
    if frame.strategy is not None:
        return frame.update_device
    context = tower_context_of(frame)
    return current_device() if context is None else str(context.device)


def _map(select: Callable[[object], object], structured: Structure) -> Structure:
    if isinstance(structured, list | tuple):
        return _sequence_like(structured, [_map(select, value) for value in structured])
    if isinstance(structured, dict):
        return _like(structured, [(key, _map(select, value)) for key, value in structured.items()])
    return select(structured)


def _sequence_like(example: Any, parts: list[Any]) -> Any:
    # By what named tuples are made of: a class of the user's, or an EstimatorSpec, may take other arguments, or check
    # that they are tensors.
    return type(example)._make(parts) if hasattr(example, "_fields") else type(example)(parts)


def _like(example: dict[K, V], items: list[tuple[K, V]]) -> dict[K, V]:
    """Return an ordered dict for one, and a plain dict for one of any other kind, which may be made in another way."""
    return OrderedDict(items) if isinstance(example, OrderedDict) else dict(items)


def _check_alike(per_device: Mapping[str, Structure], kind: type, size: Callable[[Structure], object]) -> None:
    devices = list(per_device)
    first = per_device[devices[0]]
    for device in devices[1:]:
        other = per_device[device]
        if not isinstance(other, kind) or size(other) != size(first):
            raise TowerMismatchError(
                f"expected the same structure on all devices: {devices[0]} has {first!r:.200}, {device} has "
                f"{other!r:.200}"
            )


def _regroup_leaf(per_device: Mapping[str, object], wrap_class: type[DistributedValues]) -> object:
    first, *others = per_device.values()
    is_same = all(other is first for other in others)
    container = container_of(first)
    if container is None:
        return first if is_same and not isinstance(first, MapOutput) else wrap_class(per_device)
    for device, part in per_device.items():
        if container_of(part) is not container or container.get(device) is not part:
            raise TowerMismatchError(
                f"expected on each device its part of {container!r}: {device_key(device)} has {part!r}"
            )
    return container


def container_of(value: object) -> DistributedValues | None:
    """Return the variable of all devices with a component, or None."""
    reference = getattr(value, "_distributed_container", None)
    return None if reference is None or isinstance(value, DistributedValues) else reference()
