"""The trainer and the builder of models under a distribution strategy."""

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.grads import Gradient
from tpack.train.single_cost import BuilderTrainer
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments


@check_arguments
class StrategyTrainer(BuilderTrainer):
    """Trainer of a model with one cost under a distribution strategy.

    Each tower takes its data from the `InputSource`. For ``precision`` and ``compile`` see `SingleCostTrainer`.

    Raises:
        ConfigError: ``strategy`` is something else, or the precision is unknown.

    Example:
        launch_train_with_config(config, StrategyTrainer(MirroredStrategy(num_gpus=8)))
    """

    def __init__(
        self, strategy: DistributionStrategy, *, precision: str | PrecisionPolicy = "float32", compile: Compile = None
    ) -> None:
        super().__init__(StrategyBuilder(strategy), precision=precision, compile=compile)
        self.strategy = strategy


@check_arguments
class StrategyBuilder(GraphBuilder):
    """Builder of a strategy's towers; the strategy reduces gradients and updates variables.

    A strategy of several workers sends ``stop_flag`` with the gradients.

    Attributes:
        own_gradients: those of the towers of this process, before they are reduced.

    Raises:
        ConfigError: ``strategy`` is something else, or the default one.
    """

    def __init__(self, strategy: DistributionStrategy, stop_flag: StopFlag | None = None) -> None:
        if strategy.is_default:
            raise ConfigError(f"StrategyBuilder got strategy={strategy!r}: expected one with devices")
        self._strategy = strategy
        self._stop_flag = stop_flag
        self.own_gradients: list[Gradient] = []

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

        Shapes:
            K x N gradients in, N values applied, each on the devices of its variable.

        Creates:
            The variables of the strategy, which are saved once under their names and restored on all devices.

        Raises:
            TowerMismatchError: The towers trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            StrategyError: Another strategy is current.
            ReductionError: The strategy cannot reduce these gradients.

        Source:
            The seed ``distribute``.
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
            self.own_gradients = [
                each for grad, _ in grads_and_vars for each in self._strategy.unwrap(grad) if each is not None
            ]
            train_op = self._strategy.apply_gradients(optimizer_fn(), grads_and_vars, name="train_op")
        if self._stop_flag is not None:
            said = self._stop_flag.build()
            self._stop_flag.total = self._strategy.reduce_over_workers(tf.VariableAggregation.SUM, said)
            train_op = tf.group(train_op, self._stop_flag.total, name="train_op_with_signal")
        return BuildResult(train_op, tuple(towers[index] for index in sorted(towers)))
