"""The trainers that scripts name: each is a choice of a builder and nothing more."""

from collections.abc import Sequence
from typing import Any

from tpack.graph_builder.asynchronous import AsyncMultiGPUBuilder
from tpack.graph_builder.parameter_server import SyncMultiGPUParameterServerBuilder
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.simple import SimpleBuilder
from tpack.tower.devices import tower_indices
from tpack.train.single_cost import BuilderTrainer

MAX_TOWERS_TO_BALANCE = 4
"""Up to this many GPUs, shared variables are balanced over them by default; beyond, they lie on the CPU."""


class SimpleTrainer(BuilderTrainer):
    """Trains one tower on one device."""

    def __init__(self) -> None:
        super().__init__(SimpleBuilder())


class NoOpTrainer(SimpleTrainer):
    """Builds the graph and does nothing in each step, so that only the callbacks run: to evaluate or export a model."""

    def run_step(self) -> None:
        """Do nothing."""


class SyncMultiGPUTrainerReplicated(BuilderTrainer):
    """Trains K towers with their own variables each, and all-reduces the gradients.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
        mode: the name of a way to reduce, an all-reduce spec, a `Reducer`, ``"auto"`` to measure when the gradients are
            known and take the fastest (see `choose_by_measurement`), or None for what suits the devices.
    """

    def __init__(self, gpus: int | Sequence[int], average: bool = True, mode: Any = None) -> None:
        super().__init__(SyncMultiGPUReplicatedBuilder(gpus, average, mode))


class SyncMultiGPUTrainerHierarchical(BuilderTrainer):
    """Trains as `SyncMultiGPUTrainerReplicated` does, and reduces in two groups of devices with fast links inside.

    Args:
        gpus: an even number of at least four towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
    """

    def __init__(self, gpus: int | Sequence[int], average: bool = True) -> None:
        super().__init__(SyncMultiGPUReplicatedBuilder(gpus, average, "hierarchical"))


class SyncMultiGPUTrainerParameterServer(BuilderTrainer):
    """Trains K towers that share their variables, and averages the gradients where each variable lies.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        ps_device: ``"cpu"`` or ``"gpu"``; None balances over the GPUs when there are few.
    """

    def __init__(self, gpus: int | Sequence[int], ps_device: str | None = None) -> None:
        if ps_device is None:
            ps_device = "gpu" if len(tower_indices(gpus)) <= MAX_TOWERS_TO_BALANCE else "cpu"
        super().__init__(SyncMultiGPUParameterServerBuilder(gpus, ps_device))


class AsyncMultiGPUTrainer(BuilderTrainer):
    """Trains K towers that share their variables and update them without waiting for each other.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        scale_gradient: multiply gradients by 1/K.
    """

    def __init__(self, gpus: int | Sequence[int], scale_gradient: bool = True) -> None:
        super().__init__(AsyncMultiGPUBuilder(gpus, scale_gradient))


def SyncMultiGPUTrainer(gpus: int | Sequence[int]) -> BuilderTrainer:
    """Return the synchronous trainer to use when nothing speaks for another one: the replicated one."""
    return SyncMultiGPUTrainerReplicated(gpus)
