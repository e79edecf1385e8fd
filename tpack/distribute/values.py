"""Values with one part for each of several devices: different parts (`PerDevice`), or the same (`Mirrored`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import current_device
from tpack.distribute.contexts import CrossTowerMode, current_mode, tower_context_of
from tpack.distribute.devices import device_key
from tpack.distribute.update_context import get_update_device
from tpack.errors import ConfigError, StrategyError
from tpack.tower.devices import resolve_device

_OPERATORS = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("pow", "rpow", "matmul", "rmatmul", "and", "rand", "or", "ror", "xor", "rxor", "neg", "abs", "invert"),
    *("lt", "le", "gt", "ge", "getitem", "iter"),
)


def with_operators(cls: type) -> type:
    """Give a class that TensorFlow can convert to a tensor the operators of tensors; to be used as a decorator."""
    for name in _OPERATORS:
        setattr(cls, f"__{name}__", _operator(f"__{name}__"))
    # Above numpy's, so that ``array * value`` is ours too.
    cls.__array_priority__ = 100  # type: ignore[attr-defined]
    return cls


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: Any, *others: Any) -> Any:
        return getattr(tf.convert_to_tensor(self), name)(*others)

    return apply


class DistributedValues:
    """A map from devices to values.

    Args:
        index: the value of each device, by any of the device's names; the order is kept.

    Raises:
        ConfigError: There is no device, or one under two names.

    Source:
        The class of the same name that the seed ``cross_tower_ops`` uses.
    """

    def __init__(self, index: Mapping[str, Any]) -> None:
        self._index = {device_key(device): value for device, value in index.items()}
        if not self._index or len(self._index) < len(index):
            raise ConfigError(f"wanted a value for each of one or more different devices, got some for {list(index)}")

    @property
    def index(self) -> dict[str, Any]:
        """The values by the names of their devices."""
        return dict(self._index)

    @property
    def devices(self) -> list[str]:
        """The devices, in the order in which they were given."""
        return list(self._index)

    def on_device(self, device: str) -> bool:
        """Tell whether there is a value for a device."""
        return self._key(device) is not None

    def get(self, device: str | None = None) -> Any:
        """Return the value of one device.

        Args:
            device: any of its names. None means where this is called: the device of the tower or of the update that is
                built. Across towers, and on a device without a value, it depends on the kind of value what that is.

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
        """Return what the value is to all towers together."""
        raise StrategyError(
            f"{self!r} has another value on each device, and this is none of them: use unwrap() or reduce() of the "
            "strategy"
        )

    def _key(self, device: str) -> str | None:
        """Return the name under which the index has a device, which may be the stand-in for a GPU."""
        key = device_key(device)
        if key in self._index:
            return key
        if tf.DeviceSpec.from_string(key).device_type == "GPU":
            key = device_key(resolve_device(key))
        return key if key in self._index else None

    @property
    def is_tensor_like(self) -> bool:
        """Whether all values are tensors."""
        return all(tf.is_tensor(value) for value in self._index.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._index!r})"


class PerDevice(DistributedValues):
    """Values that differ from device to device: of locality T, when the devices are those of the towers.

    Args:
        index: the value of each device.

    Source:
        The class of the same name in the seeds.
    """


@with_operators
class Mirrored(DistributedValues):
    """Values that are the same on all devices: of locality M, V(v) or N.

    It can be used like the value itself, which is taken from the device where it is used.

    Args:
        index: the value of each device.

    Source:
        The class of the same name in the seeds.
    """

    def _get_cross_tower(self) -> Any:
        return self._index.get(device_key(current_device()), next(iter(self._index.values())))

    def __bool__(self) -> bool:
        # A tensor refuses, and an operation is true.
        return bool(self.get())

    def _as_graph_element(self) -> Any:
        value = self.get()
        convert = getattr(value, "_as_graph_element", None)
        return value if convert is None else convert()

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are how TensorFlow and Python ask what kind of object this is.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.get(), name)


def _to_tensor(value: Mirrored, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return tf.convert_to_tensor(value.get(), dtype=dtype, name=name)


tf.register_tensor_conversion_function(Mirrored, _to_tensor)


class MapOutput:
    """Several results of one device, of which there may be none, that are one value to a reduction.

    Args:
        values: the results.

    Source:
        The class of the same name that the seed ``cross_tower_ops`` uses.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)

    def get(self) -> list[Any]:
        """Return the results."""
        return list(self._values)

    def __repr__(self) -> str:
        return f"MapOutput({self._values!r})"


def _current_device() -> str | None:
    """Return the device of the current tower or update, or None in a cross-tower context."""
    mode = current_mode()
    if isinstance(mode, CrossTowerMode):
        return get_update_device()
    context = tower_context_of(mode)
    return current_device() if context is None else str(context.device)
