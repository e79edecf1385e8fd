"""One stream of data for K towers: each element goes to the next tower in turn.

Step s gives tower k element s * K + k of the stream, an element being what a tower works on, usually a batch. What is
left at the end for fewer than K towers is dropped.

Towers on CPU devices read the stream on the host, where the data is. For other devices, elements wait on the device in
a buffer that is filled while earlier steps run.
"""

import abc
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat import make_multi_device_iterator
from tpack.distribute.values import Structure, regroup
from tpack.errors import StrategyError
from tpack.reduction.sums import on_device
from tpack.tower.devices import resolve_together
from tpack.utils.validation import check_arguments, check_count, check_instances

_HOST = "/device:CPU:0"
_USUAL_PREFETCH = 2


@check_arguments
class PerDeviceDataset:
    """Dataset whose elements are dealt out to K devices.

    Args:
        dataset: the stream.
        devices: the device of each tower.
        prefetch_on_device: the elements that wait on each device; True for 2 and False for none; None for 2, and for
            none where all devices are CPUs, whose memory is the host's.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: There is no device, or the number is negative.

    Source:
        TensorFlow's ``contrib.distribute``.
    """

    def __init__(
        self,
        dataset: tf.compat.v2.data.Dataset,
        devices: Sequence[str],
        *,
        prefetch_on_device: bool | int | None = None,
    ) -> None:
        self._dataset = dataset
        names = [devices] if isinstance(devices, str) else devices
        wanted = "a list of names of devices"
        names = check_instances(self, "devices", names, str, least=1, expected=wanted)
        self._devices = list(dict.fromkeys(resolve_together(names)))
        if prefetch_on_device is None:
            kinds = {tf.DeviceSpec.from_string(device).device_type for device in self._devices}
            prefetch_on_device = kinds != {"CPU"}
        self._prefetch = checked_prefetch(self, prefetch_on_device)

    @property
    def devices(self) -> list[str]:
        """The devices of the towers, in their order."""
        return list(self._devices)

    def make_one_shot_iterator(self) -> "PerDeviceIterator":
        """Return an iterator over the stream, once; with prefetching, ``tf.tables_initializer()`` starts it."""
        if not self._prefetch:
            with on_device(_HOST):
                return _HostIterator(tf.data.make_one_shot_iterator(self._dataset), self._devices)
        iterator = _DeviceIterator(self._dataset, self._devices, self._prefetch)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator

    def make_initializable_iterator(self) -> "PerDeviceIterator":
        """Return an iterator whose ``initializer`` restarts the stream."""
        if not self._prefetch:
            with on_device(_HOST):
                return _HostIterator(tf.data.make_initializable_iterator(self._dataset), self._devices)
        return _DeviceIterator(self._dataset, self._devices, self._prefetch)


def checked_prefetch(owner: object, prefetch_on_device: bool | int) -> int:
    """Return the number of prefetched elements.

    Raises:
        WrongTypeError: It is neither a bool nor an integer.
        ConfigError: It is negative.
    """
    if isinstance(prefetch_on_device, bool):
        return _USUAL_PREFETCH if prefetch_on_device else 0
    return check_count(owner, "prefetch_on_device", prefetch_on_device, minimum=0)


class PerDeviceIterator(abc.ABC):
    """Iterator over the elements of all towers."""

    @property
    @abc.abstractmethod
    def initializer(self) -> tf.Operation:
        """The operation that restarts the stream."""

    @abc.abstractmethod
    def get_next(self) -> Structure:
        """Return the next element of every tower: the structure of an element, with values of all devices.

        Every run of any part takes an element for each tower. With fewer left, it fails with an ``OutOfRangeError``.
        """


class _HostIterator(PerDeviceIterator):
    """K reads from one iterator, one after the other."""

    def __init__(self, iterator: tf.data.Iterator, devices: Sequence[str]) -> None:
        self._iterator = iterator
        self._devices = devices

    @property
    def initializer(self) -> tf.Operation:
        try:
            return self._iterator.initializer
        except ValueError as error:
            raise StrategyError("a one-shot iterator cannot be started anew: make an initializable one") from error

    def get_next(self) -> Structure:
        read: list[Structure] = []
        with tf.name_scope("per_device_next"), on_device(_HOST):
            for _ in self._devices:
                with tf.control_dependencies(_components(read[-1:])[:1]):
                    read.append(self._iterator.get_next())
            # Reading one tower's element reads all, so that towers stay in step.
            with tf.control_dependencies(_components(read[-1:])[:1]):
                placed = {d: _on_device(element, d) for d, element in zip(self._devices, read, strict=True)}
        return regroup(placed)


class _DeviceIterator(PerDeviceIterator):
    """TensorFlow's iterator over several devices, with a buffer on each."""

    def __init__(self, dataset: tf.compat.v2.data.Dataset, devices: Sequence[str], buffer_size: int) -> None:
        self._devices = devices
        with on_device(_HOST):
            self._iterator = make_multi_device_iterator(dataset, devices, buffer_size)

    @property
    def initializer(self) -> tf.Operation:
        return self._iterator.initializer

    def get_next(self) -> Structure:
        with tf.name_scope("per_device_next"):
            elements = self._iterator.get_next()
            with tf.control_dependencies([_components([element])[0] for element in elements]):
                placed = {d: _on_device(element, d) for d, element in zip(self._devices, elements, strict=True)}
        return regroup(placed)


def _components(elements: Sequence[Structure]) -> list[tf.Tensor]:
    """Return the tensors of elements, with those of sparse tensors and the like."""
    return tf.nest.flatten(elements, expand_composites=True)


def _on_device(element: Structure, device: str) -> Structure:
    with on_device(device):
        return tf.nest.map_structure(tf.identity, element, expand_composites=True)
