"""What the builders of several towers have in common."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.towers import build_towers
from tpack.tower.devices import resolve_device, resolve_devices


class DataParallelBuilder(GraphBuilder):
    """Base of builders that run the model once on each of K devices.

    Args:
        towers: how many towers, or the numbers of their GPUs.

    Raises:
        ConfigError: No tower, or a GPU number that is negative or there twice.
        DeviceError: A GPU that the machine, having GPUs, does not have.
    """

    def __init__(self, towers: int | Sequence[int]) -> None:
        self._devices = resolve_devices(towers)

    @property
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each tower."""
        return self._devices

    @abstractmethod
    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """See `GraphBuilder.build`."""

    @staticmethod
    def call_for_each_tower(
        towers: Sequence[int],
        func: Callable[[], Any],
        devices: Sequence[Any] | None = None,
        use_vs: Sequence[bool] | None = None,
    ) -> list[Any]:
        """Call a function once in each tower and return what it returned.

        Args:
            towers: the GPU numbers of the K towers.
            func: builds one tower.
            devices: K device names or device functions, in place of the GPUs. Names of GPUs become logical CPU devices
                on a machine without GPUs.
            use_vs: K flags: whether a tower has its own variables, in a variable scope of its name. None means that all
                towers share the first one's.

        Returns:
            K outputs of ``func``.

        Shapes:
            K outputs, whatever ``func`` returns.

        Raises:
            ConfigError: The lists differ in length.
            TowerMismatchError: A tower asks for a variable that it shares and the first tower did not create.

        Source:
            The static method of the same name in tensorpack.
        """
        where = list(towers if devices is None else devices)
        own = [False] * len(towers) if use_vs is None else list(use_vs)
        if not len(towers) == len(where) == len(own):
            raise ConfigError(f"got {len(towers)} towers, {len(where)} devices and {len(own)} use_vs flags")
        resolved = [device if callable(device) else resolve_device(device) for device in where]
        return build_towers(func, resolved, own).outputs

    build_on_towers = call_for_each_tower
