"""Builder of K towers in each of W workers that train each by itself, and become the mean of all W * K.

Inside a worker it is `LocalStepsBuilder`. One copy of the mean of a worker is exchanged between the workers, together
with the stop flag, and an outer optimizer makes the same update in each of them.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn
from tpack.graph_builder.local_steps import LocalSteps, LocalStepsBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.tables.embedding import begin_tables
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.base import Reducer
from tpack.tower.grads import ReduceOp
from tpack.utils.validation import check_arguments


@check_arguments
class MultiWorkerLocalStepsBuilder(LocalStepsBuilder):
    """Builder of towers of several workers, whose weights are averaged over all of them every so many steps.

    Args:
        towers: the number of towers of this worker, as many as the others', or the numbers of their GPUs.
        group: the workers, which must begin with the same values: see `copy_from_worker`.
        steps: after how many steps, and how.
        reducer: as for `LocalStepsBuilder`, inside a worker.
        exchange: options of the exchange between workers; None means ``Exchange()``.
        stop_flag: a stop flag that travels with the weights.
        tower_building: see `DataParallelBuilder`.

    Raises:
        ConfigError: An argument is invalid.
        DeviceError: The machine has GPUs, but not one of these.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        group: WorkerGroup,
        steps: LocalSteps,
        reducer: Reducer | None = None,
        *,
        exchange: Exchange | None = None,
        stop_flag: StopFlag | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, steps, reducer, tower_building=tower_building)
        self._group = group
        self._exchange = exchange
        self._stop_flag = stop_flag

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Do as `LocalStepsBuilder.build`; a table of several workers is refused, with a `ConfigError`."""
        begin_tables(self._group, self._exchange, refused_with="sync_every_steps")
        return super().build(grad_fn, optimizer_fn)

    def _between_workers(self, names: Sequence[str], means: list[tf.Tensor]) -> list[tf.Tensor]:
        group, flag = self._group, self._stop_flag
        if group.size == 1:
            return means
        sent, names = list(means), list(names)
        if flag is not None:
            sent.append(flag.build())
            names.append("the stop flag")
        exchange = dataclasses.replace(self._exchange or Exchange(), names=names, has_wide_sums=True)
        of_all = all_reduce_between_workers(group, sent, ReduceOp.MEAN, name="weights", exchange=exchange)
        if flag is not None:
            flag.is_between_steps = True
            flag.arrived(of_all.pop(), ReduceOp.MEAN, group.size)
        return of_all
