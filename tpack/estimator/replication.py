"""Over which devices a model_fn is replicated, and what its towers share."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpack.estimator.variable_placement import RoundRobin, VariablePlacement
from tpack.tower.devices import list_gpus, resolve_device
from tpack.utils import logger


@dataclass(frozen=True)
class Replication:
    """K towers on their devices.

    Attributes:
        devices: one for each tower.
        variable_devices: where the shared variables go.
        consolidation_device: where the batch is split, and where the towers' results meet.
    """

    devices: tuple[str, ...]
    variable_devices: tuple[str, ...]
    consolidation_device: str

    @property
    def num_towers(self) -> int:
        """K."""
        return len(self.devices)

    def variable_turns(self) -> RoundRobin:
        """Return the turns in which variables take their devices, from the beginning."""
        return RoundRobin(self.variable_devices)


def replication_over(
    devices: Sequence[str] | None, placement: VariablePlacement = VariablePlacement.ONE_DEVICE
) -> Replication:
    """Plan towers on these devices.

    Args:
        devices: names; none means all GPUs of this machine, or its CPU if it has no GPU.
        placement: where variables go.

    Raises:
        DeviceError: There are GPUs, and one that is asked for is not among them.
        ConfigError: A name cannot be read.
    """
    resolved = tuple(resolve_device(device) for device in devices or list_gpus() or ["/device:CPU:0"])
    is_one_gpu = len(resolved) == 1 and "GPU" in resolved[0].upper()
    consolidation = resolved[0] if is_one_gpu else "/device:CPU:0"
    variable_devices = resolved if placement is VariablePlacement.ROUND_ROBIN else (consolidation,)
    logger.info(
        f"The model_fn is replicated over {', '.join(resolved)}, with variables on {', '.join(variable_devices)}; "
        f"results meet on {consolidation}."
    )
    return Replication(resolved, variable_devices, consolidation)
