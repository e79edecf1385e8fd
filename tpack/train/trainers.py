"""The trainers that scripts name: each is a choice of a builder and nothing more.

What scripts write as text, such as the mode of a reduction, is read here; builders get objects.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.parameter_server import AsyncMultiGPUBuilder, SyncMultiGPUParameterServerBuilder
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.simple import SimpleBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.stop_flag import StopFlag
from tpack.reduction.modes import ReductionMode, reducer_for_towers
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.devices import tower_indices
from tpack.train.single_cost import BuilderTrainer
from tpack.types import GradsAndVars
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


@check_arguments
class StrategyTrainer(BuilderTrainer):
    """Trains a model with one cost under a distribution strategy.

    Each tower takes its data from the `InputSource`, as under any other trainer.

    Args:
        strategy: the strategy.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.

    Raises:
        ConfigError: ``strategy`` is something else, or the precision is unknown.

    Example:
        launch_train_with_config(config, StrategyTrainer(MirroredStrategy(num_gpus=8)))
    """

    def __init__(
        self,
        strategy: DistributionStrategy,
        *,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        super().__init__(StrategyBuilder(strategy), precision=precision, compile=compile)
        self.strategy = strategy


@check_arguments
class StrategyBuilder(GraphBuilder):
    """Builds the towers of a distribution strategy, and lets it reduce gradients and update variables.

    Args:
        strategy: the strategy: any but the default one.
        end_signal: travels with the gradients, where the strategy is one of several workers.

    Raises:
        ConfigError: It is something else.
    """

    def __init__(self, strategy: DistributionStrategy, end_signal: StopFlag | None = None) -> None:
        if strategy.is_default:
            raise ConfigError(f"expected a DistributionStrategy with devices, got {strategy!r}")
        self._strategy = strategy
        self._end_signal = end_signal

    @property
    def strategy(self) -> DistributionStrategy:
        """The strategy."""
        return self._strategy

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of each tower."""
        return tuple(self._strategy.worker_devices)

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and the train op in the scope of the strategy.

        Args:
            grad_fn: see `GraphBuilder.build`.
            optimizer_fn: see `GraphBuilder.build`.

        Returns:
            The train op and the towers.

        Shapes:
            K x N gradients in, N values applied, each on the devices of its variable.

        Creates:
            The variables, as the strategy makes them; under their names they are saved once, and restored everywhere.

        Raises:
            TowerMismatchError: The towers trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            StrategyError: Another strategy is current.
            ReductionError: The strategy cannot reduce these gradients.

        Source:
            The standard pattern in the seed ``distribute``.
        """
        towers: dict[int, TowerContext] = {}

        def note_tower() -> None:
            tower = current_tower_context()
            towers[tower.index] = tower

        def build_tower() -> GradsAndVars:
            note_tower()
            current_tower_context().repeat_in_copies(note_tower)
            return list(grad_fn())

        with self._strategy.scope():
            grads_and_vars = self._strategy.call_for_each_tower(build_tower)
            train_op = self._strategy.apply_gradients(optimizer_fn(), grads_and_vars, name="train_op")
        if self._end_signal is not None:
            said = self._end_signal.build()
            self._end_signal.told = self._strategy.reduce_over_workers(tf.VariableAggregation.SUM, said)
            train_op = tf.group(train_op, self._end_signal.told, name="train_op_with_signal")
        return BuildResult(train_op, tuple(towers[index] for index in sorted(towers)))
