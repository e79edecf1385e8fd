"""From a distribution strategy to a graph builder, so that trainers can train under any strategy."""

from typing import Any

from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, GradsAndVars, GraphBuilder, OptimizerFn
from tpack.tower.context import TowerContext, current_tower_context


class StrategyBuilder(GraphBuilder):
    """Builds the towers of a distribution strategy, and lets it reduce gradients and update variables.

    Args:
        strategy: the strategy: any but the default one.

    Raises:
        ConfigError: It is something else.
    """

    def __init__(self, strategy: DistributionStrategy) -> None:
        if not isinstance(strategy, DistributionStrategy) or strategy.is_default:
            raise ConfigError(f"wanted a DistributionStrategy with devices, got {strategy!r}")
        self._strategy = strategy

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

        def build_tower() -> GradsAndVars:
            tower = current_tower_context()
            towers[tower.index] = tower
            return list(grad_fn())

        with self._strategy.scope():
            grads_and_vars: Any = self._strategy.call_for_each_tower(build_tower)
            train_op = self._strategy.apply_gradients(optimizer_fn(), grads_and_vars, name="train_op")
        return BuildResult(train_op, tuple(towers[index] for index in sorted(towers)))
