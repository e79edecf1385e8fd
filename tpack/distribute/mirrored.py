"""Mirror every variable on all devices, and keep the mirrors the same by reducing what the towers bring.

Mirrored variables, with TensorFlow's collective operations in place of copies.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tpack.distribute.cross_tower_ops import CrossTowerOps
from tpack.distribute.device_list import DeviceListStrategy
from tpack.distribute.devices import different_devices, worker_devices_of
from tpack.distribute.mirrored_optimizer import MirroredOptimizers
from tpack.distribute.reducer_ops import CollectiveAllReduce
from tpack.distribute.variables.creating import create_distributed_variable, devices_for
from tpack.errors import ConfigError
from tpack.tower.devices import list_gpus, resolve_device, resolve_devices


class MirroredStrategy(DeviceListStrategy):
    """Synchronous training on the devices of one machine, with a mirror of each variable on each device.

    Towers are built one after the other, in one order, also where they meet: see `tpack.tower.rendezvous`.

    Args:
        devices: names of devices, each once. None for the GPUs of the machine, or its CPU if it has none.
        num_gpus: in place of ``devices``, how many GPUs.
        cross_tower_ops: reduces and broadcasts values; by default what `choose_the_best` chooses, with the session
            config that `configure` was given.
        prefetch_on_device: how many elements of a dataset wait on each device; see `PerDeviceDataset`.

    Raises:
        ConfigError: Both ``devices`` and ``num_gpus`` are given, or no device, or one twice.
        DeviceError: There are GPUs, and not one that is asked for.

    Example:
        strategy = MirroredStrategy(num_gpus=8)
        with strategy.scope():
            losses = strategy.call_for_each_tower(tower_fn, inputs)

    Source:
        The mirrored strategy that the seed ``distribute`` describes.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        cross_tower_ops: CrossTowerOps | None = None,
        prefetch_on_device: int | None = None,
    ) -> None:
        super().__init__(cross_tower_ops, prefetch_on_device=prefetch_on_device)
        self._devices = _resolved(devices, num_gpus)
        self._optimizers = MirroredOptimizers()

    @property
    def worker_devices(self) -> list[str]:
        """The devices of the towers."""
        return list(self._devices)

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        devices = devices_for(kwargs.pop("colocate_with", None), self._devices)
        return create_distributed_variable(next_creator, devices, kwargs)

    def _update_by_optimizer(self, optimizer: Any, grads_and_vars: Sequence[tuple[Any, Any]], name: str) -> list[Any]:
        return self._optimizers.apply_gradients(optimizer, grads_and_vars, name)

    def __repr__(self) -> str:
        return f"<MirroredStrategy on {', '.join(self._devices)}>"


def _resolved(devices: Sequence[str] | None, num_gpus: int | None) -> list[str]:
    if devices is not None and num_gpus is not None:
        raise ConfigError(f"wanted devices or num_gpus, got both: {devices!r} and {num_gpus!r}")
    if num_gpus is not None:
        return list(resolve_devices(num_gpus))
    if devices is None:
        return list_gpus() or [resolve_device(-1)]
    return different_devices(devices)


class CollectiveAllReduceStrategy(MirroredStrategy):
    """Synchronous training with a mirror of each variable on each device, that reduces by collective operations.

    With one process, `MirroredStrategy` does the same and chooses a faster way to reduce between CPU devices.

    Args:
        num_gpus_per_worker: how many towers, on as many GPUs; 0 for one on the CPU.
        devices: in place of that, the device of each tower.
        all_reduce_merge_scope: see `CollectiveAllReduce`.
        prefetch_on_device: how many elements of a dataset wait on each device; see `PerDeviceDataset`.

    Raises:
        ConfigError: Both ``num_gpus_per_worker`` and ``devices`` are given, one is out of range, or a device is there
            twice.
        DeviceError: There are GPUs, and not one that is asked for.

    Source:
        The class of the same name in TensorFlow's ``contrib.distribute``.
    """

    def __init__(
        self,
        num_gpus_per_worker: int = 0,
        *,
        devices: Sequence[str] | None = None,
        all_reduce_merge_scope: int = 32,
        prefetch_on_device: int | None = None,
    ) -> None:
        names = worker_devices_of(num_gpus_per_worker, devices)
        super().__init__(
            names,
            cross_tower_ops=CollectiveAllReduce(all_reduce_merge_scope=all_reduce_merge_scope),
            prefetch_on_device=prefetch_on_device,
        )

    def __repr__(self) -> str:
        return f"<CollectiveAllReduceStrategy on {', '.join(self.worker_devices)}>"
