"""The trainers that scripts name: each is a choice of a builder.

Their ``gpus`` are the number of towers, or the numbers of their GPUs. For ``precision`` and ``compile`` see
`SingleCostTrainer`, for ``tower_building`` `DataParallelBuilder`. Text in scripts, such as the mode of a reduction, is
parsed here; builders get objects.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.reduction.modes import ReductionMode, reducer_for_towers
from tpack.schedules import Schedule
from tpack.tower.devices import tower_indices
from tpack.train.single_cost import BuilderTrainer
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import on_unknown_name, takes_config
from tpack.utils.validation import check_arguments

_local_steps = LazyModule("tpack.graph_builder.local_steps")
_sharded = LazyModule("tpack.graph_builder.sharded")

__getattr__ = on_unknown_name(__name__)

_MAX_TOWERS_TO_BALANCE = 4
"""The most GPUs that share variables by default; with more, variables are on the CPU."""


@takes_config
@check_arguments
class SimpleTrainer(BuilderTrainer):
    """Trainer of one tower on one device."""

    def __init__(self, *, precision: str | PrecisionPolicy = "float32", compile: Compile = None) -> None:
        super().__init__(SimpleBuilder(), precision=precision, compile=compile)


class NoOpTrainer(SimpleTrainer):
    """Trainer that builds the graph and runs only the callbacks, to evaluate or export a model."""

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Register callbacks and monitors; no step has statistics."""
        self.statistics = {}
        super().setup_callbacks(callbacks, monitors)

    def run_step(self) -> None:
        """Do nothing."""


@takes_config
@check_arguments
class SyncMultiGPUTrainerReplicated(BuilderTrainer):
    """Trainer of K towers with their own variables, whose gradients are all-reduced, by their mean or sum.

    The ``mode`` is the name of a reducer, an all-reduce spec, a `Reducer`, ``"auto"`` to measure and take the fastest
    (see `choose_by_measurement`), or None for the default of the devices. For ``accumulate`` see
    `SyncMultiGPUReplicatedBuilder`. With ``shard_optimizer`` each tower has the state of the optimizer for its part of
    the variables alone. With ``sync_every_steps`` each tower applies its own gradients, and weights are averaged every
    so many steps; for this, ``outer_optimizer`` and ``inner_state`` see `LocalSteps`.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        mode: ReductionMode = None,
        *,
        accumulate: int | Schedule = 1,
        shard_optimizer: bool = False,
        sync_every_steps: int | Schedule | None = None,
        outer_optimizer: tf.train.Optimizer | None = None,
        inner_state: str = "keep",
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        choice = reducer_for_towers(gpus, mode)
        if (sync_every_steps, outer_optimizer, inner_state) != (None, None, "keep"):
            steps = _local_steps.local_steps_of(
                self,
                sync_every_steps,
                outer_optimizer,
                inner_state,
                accumulate=(accumulate, 1),
                shard_optimizer=(shard_optimizer, False),
                average=(average, True),
            )
            builder = _local_steps.LocalStepsBuilder(gpus, steps, choice.reducer, tower_building=tower_building)
        else:
            make = _sharded.ShardedReplicatedBuilder if shard_optimizer else SyncMultiGPUReplicatedBuilder
            builder = make(gpus, average, choice.reducer, accumulate=accumulate, tower_building=tower_building)
        self.reduction = str(choice)
        super().__init__(builder, precision=precision, compile=compile)


@check_arguments
class SyncMultiGPUTrainerHierarchical(SyncMultiGPUTrainerReplicated):
    """Variant for an even number of towers, reduced in two groups of devices with fast links inside."""

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        *,
        accumulate: int | Schedule = 1,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(
            gpus,
            average,
            "hierarchical",
            accumulate=accumulate,
            precision=precision,
            compile=compile,
            tower_building=tower_building,
        )


@takes_config
@check_arguments
class SyncMultiGPUTrainerParameterServer(BuilderTrainer):
    """Trainer of K towers that share their variables, whose gradients are averaged on the device of each variable.

    The ``ps_device`` is ``"cpu"`` or ``"gpu"``; None balances over few GPUs, and uses the CPU with more. For
    ``accumulate`` see `SyncMultiGPUParameterServerBuilder`.
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        ps_device: str | None = None,
        *,
        accumulate: int | Schedule = 1,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        if ps_device is None:
            ps_device = "gpu" if len(tower_indices(gpus)) <= _MAX_TOWERS_TO_BALANCE else "cpu"
        self.reduction = "the devices of the variables"
        builder = SyncMultiGPUParameterServerBuilder(
            gpus, ps_device, accumulate=accumulate, tower_building=tower_building
        )
        super().__init__(builder, precision=precision, compile=compile)


@takes_config
@check_arguments
class AsyncMultiGPUTrainer(BuilderTrainer):
    """Trainer of K towers that share their variables and update them independently, by their own gradients.

    With ``scale_gradient``, gradients are multiplied by 1/K.
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
    """Return the default synchronous trainer, a `SyncMultiGPUTrainerReplicated`."""
    return SyncMultiGPUTrainerReplicated(gpus, precision=precision, compile=compile, tower_building=tower_building)
