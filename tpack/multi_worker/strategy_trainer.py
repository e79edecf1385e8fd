"""Trainer of a distribution strategy over several workers."""

from typing import Any

from tpack.distribute.strategies import CollectiveAllReduceStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.graph_builder.base import GraphBuilder
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.trainer import MultiWorkerTrainer, WaitLimits
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.utils.launch_env import ClusterRank
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments


@check_arguments
class MultiWorkerStrategyTrainer(MultiWorkerTrainer):
    """Train a model with one cost under a `CollectiveAllReduceStrategy`, with towers in all of W workers.

    It corresponds to `MultiWorkerTrainerReplicated` as `StrategyTrainer` does to `SyncMultiGPUTrainerReplicated`. A
    process that is alone trains as `StrategyTrainer` does. Variables on parameter servers have trainers of their own
    (`DistributedTrainerParameterServer`), and an `Estimator` takes a `ParameterServerStrategy`.

    Args:
        strategy: the strategy; each worker has its own, with as many devices as the others'.
        cluster: the place of this process; None calls `resolve_cluster`.
        waits: the timeouts.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`; None where there are several workers.

    Raises:
        ConfigError: ``strategy`` is something else, or the process is not a worker.
        ClusterError: The workers do not find each other.

    Example:
        launch_train_with_config(config, MultiWorkerStrategyTrainer(CollectiveAllReduceStrategy(num_gpus_per_worker=8)))
    """

    def __init__(
        self,
        strategy: CollectiveAllReduceStrategy,
        *,
        cluster: ClusterMember | ClusterTask | ClusterRank | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        self.strategy = strategy

        def make_builder(group: WorkerGroup) -> GraphBuilder:
            if group.size == 1:
                return StrategyBuilder(strategy)
            strategy.join_workers(self.member, group.run)
            return StrategyBuilder(strategy, self.stop_flag)

        super().__init__(make_builder, cluster, waits=waits, precision=precision, compile=compile)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "the strategy": repr(self.strategy)}
