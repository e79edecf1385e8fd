"""The trainer of any model under any distribution strategy."""

from tpack.distribute.strategy import DistributionStrategy
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.train.single_cost import BuilderTrainer
from tpack.train.strategy_builder import StrategyBuilder


class StrategyTrainer(BuilderTrainer):
    """Trains a model with one cost under a distribution strategy.

    Each tower takes its data from the `InputSource`, as under any other trainer.

    Args:
        strategy: the strategy.
        precision: see `SingleCostTrainer`.

    Raises:
        ConfigError: ``strategy`` is something else, or the precision is unknown.

    Example:
        launch_train_with_config(config, StrategyTrainer(MirroredStrategy(num_gpus=8)))

    Source:
        Written for tpack.
    """

    def __init__(self, strategy: DistributionStrategy, *, precision: str | PrecisionPolicy = "float32") -> None:
        super().__init__(StrategyBuilder(strategy), precision=precision)
        self.strategy = strategy
