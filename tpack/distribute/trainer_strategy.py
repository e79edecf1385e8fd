"""The strategy of towers that a trainer builds.

A trainer's builder decides the reduction of gradients and the placement of variables. This strategy lets code for
strategies, such as a layer with synchronised statistics, work in the builder's towers as well.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import ReplicaContext, require_distribution_strategy_scope, show_tower, tower_context_of
from tpack.distribute.multi_device import MultiDeviceStrategy
from tpack.distribute.replica_context import Arrival, MergeCallContext
from tpack.distribute.strategy import DatasetFn, VariableCreator
from tpack.distribute.values import Destinations, Structure, Value, Variable
from tpack.errors import StrategyError
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import Frame, TowerContext
from tpack.tower.per_graph import PerGraph


class TrainerTowersStrategy(MultiDeviceStrategy):
    """The K towers of a trainer, or one for prediction.

    The trainer makes the variables. The towers' own variables form a `PerDevice`, which `update` takes too.
    """

    def __init__(self, num_towers: int) -> None:
        super().__init__()
        self._num_towers = num_towers
        self.arrivals: dict[int, Arrival] = {}

    @property
    def num_towers(self) -> int:
        """K, the number of the trainer's towers."""
        return self._num_towers

    @property
    def worker_devices(self) -> list[str]:
        """The devices of the towers; raise a `StrategyError` before all have called merge_call."""
        if len(self.arrivals) < self._num_towers:
            raise StrategyError("the devices of a trainer's towers are known when they meet: in merge_call")
        return [self.arrivals[index].device for index in sorted(self.arrivals)]

    def apply_gradients(
        self,
        optimizer: tf.train.Optimizer,
        grads_and_vars: Iterable[tuple[Value | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Apply gradients as any strategy does; those of a single tower by the optimizer alone."""
        if self._num_towers > 1:
            return super().apply_gradients(optimizer, grads_and_vars, global_step, name)
        check_optimizer(optimizer)
        return optimizer.apply_gradients(grads_and_vars, global_step, name)

    def _create_variable(self, next_creator: VariableCreator, **kwargs: object) -> NoReturn:
        raise StrategyError("a trainer's towers have no scope(): their variables are made by the trainer")

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Destinations) -> Iterator[None]:
        """Make variables in a block on the device of another one; raise a `StrategyError` outside of the towers."""
        require_distribution_strategy_scope(self)
        with tf.colocate_with(colocate_with_variable):
            yield

    def _distribute_dataset(self, dataset_fn: DatasetFn) -> NoReturn:
        raise StrategyError("the input of a trainer's towers is its InputSource: give the dataset to that")

    def _call_for_each_tower(self, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> NoReturn:
        raise StrategyError("a trainer builds its towers by itself: they cannot be called for once more")


def context_of_tower(tower: TowerContext) -> ReplicaContext:
    """Return the strategy's context of a trainer's current tower, created on first use."""
    context = tower_context_of(Frame(tower))
    if context is None:
        is_alone = tower.total == 1 or not tower.is_training
        # All sets of a graph with the same number of towers share a strategy.
        known = {1: TrainerTowersStrategy(1)} if is_alone else _strategies.here()
        num_towers = 1 if is_alone else tower.total
        if num_towers not in known:
            known[num_towers] = TrainerTowersStrategy(num_towers)
        strategy = known[num_towers]
        context = MergeCallContext(strategy, 0 if is_alone else tower.index, strategy.arrivals)
        show_tower(tower, context)
    return context


_strategies: PerGraph[dict[int, TrainerTowersStrategy]] = PerGraph(dict)
"""The strategies of a graph's sets of towers, by their number in a set."""
