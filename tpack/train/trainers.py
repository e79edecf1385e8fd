"""The trainers that scripts name: each is a choice of a builder and nothing more.

What scripts write as text, such as the mode of a reduction, is read here; builders get objects.
"""

from collections.abc import Sequence

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.parameter_server import AsyncMultiGPUBuilder, SyncMultiGPUParameterServerBuilder
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.simple import SimpleBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.reduction.modes import ReductionMode, reducer_for_towers
from tpack.tower.devices import tower_indices
from tpack.train.single_cost import BuilderTrainer
from tpack.utils.renames import on_unknown_name, takes_config
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)

_MAX_TOWERS_TO_BALANCE = 4
"""Up to this many GPUs, shared variables are balanced over them by default; beyond, they lie on the CPU."""


@takes_config
@check_arguments
class SimpleTrainer(BuilderTrainer):
    """Trains one tower on one device.

    Args:
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
    """

    def __init__(self, *, precision: str | PrecisionPolicy = "float32", compile: Compile = None) -> None:
        super().__init__(SimpleBuilder(), precision=precision, compile=compile)


class NoOpTrainer(SimpleTrainer):
    """Builds the graph and does nothing in each step, so that only the callbacks run: to evaluate or export a model."""

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Register callbacks and monitors, to which no step has anything to report."""
        self.statistics = {}
        super().setup_callbacks(callbacks, monitors)

    def run_step(self) -> None:
        """Do nothing."""


@takes_config
@check_arguments
class SyncMultiGPUTrainerReplicated(BuilderTrainer):
    """Trains K towers with their own variables each, and all-reduces the gradients.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
        mode: the name of a way to reduce, an all-reduce spec, a `Reducer`, ``"auto"`` to measure when the gradients are
            known and take the fastest (see `choose_by_measurement`), or None for what suits the devices.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`: how the third tower and all that follow come about.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        mode: ReductionMode = None,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        choice = reducer_for_towers(gpus, mode)
        builder = SyncMultiGPUReplicatedBuilder(gpus, average, choice.reducer, tower_building=tower_building)
        self.reduction = str(choice)
        super().__init__(builder, precision=precision, compile=compile)


@check_arguments
class SyncMultiGPUTrainerHierarchical(BuilderTrainer):
    """Trains as `SyncMultiGPUTrainerReplicated` does, and reduces in two groups of devices with fast links inside.

    Args:
        gpus: an even number of towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`: how the third tower and all that follow come about.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        choice = reducer_for_towers(gpus, "hierarchical")
        builder = SyncMultiGPUReplicatedBuilder(gpus, average, choice.reducer, tower_building=tower_building)
        self.reduction = str(choice)
        super().__init__(builder, precision=precision, compile=compile)


@takes_config
@check_arguments
class SyncMultiGPUTrainerParameterServer(BuilderTrainer):
    """Trains K towers that share their variables, and averages the gradients where each variable lies.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        ps_device: ``"cpu"`` or ``"gpu"``; None balances over the GPUs when there are few.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`: how the third tower and all that follow come about.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        ps_device: str | None = None,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        if ps_device is None:
            ps_device = "gpu" if len(tower_indices(gpus)) <= _MAX_TOWERS_TO_BALANCE else "cpu"
        self.reduction = "the devices of the variables"
        builder = SyncMultiGPUParameterServerBuilder(gpus, ps_device, tower_building=tower_building)
        super().__init__(builder, precision=precision, compile=compile)


@takes_config
@check_arguments
class AsyncMultiGPUTrainer(BuilderTrainer):
    """Trains K towers that share their variables, each of which updates them by its own gradients.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        scale_gradient: multiply gradients by 1/K.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`: how the third tower and all that follow come about.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        scale_gradient: bool = True,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        self.reduction = "nothing, since each tower applies its own"
        builder = AsyncMultiGPUBuilder(gpus, scale_gradient, tower_building=tower_building)
        super().__init__(builder, precision=precision, compile=compile)


@takes_config
@check_arguments
def SyncMultiGPUTrainer(
    gpus: int | Sequence[int],
    *,
    precision: str | PrecisionPolicy = "float32",
    compile: Compile = None,
    tower_building: TowerBuilding = "auto",
) -> BuilderTrainer:
    """Return the synchronous trainer to use when nothing speaks for another one: the replicated one."""
    return SyncMultiGPUTrainerReplicated(gpus, precision=precision, compile=compile, tower_building=tower_building)
