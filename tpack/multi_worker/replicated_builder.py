"""Builder of K replicas in each of W workers, with gradients all-reduced over all W * K of them.

Inside a worker it is `SyncMultiGPUReplicatedBuilder`, with any of its reducers. One copy of the result is exchanged
between the workers and goes back to the K towers.
"""

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.accumulation import Application, Apply, apply_every
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import (
    SyncMultiGPUReplicatedBuilder,
    apply_in_replicas,
    build_replicas,
    copy_to_replicas,
)
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.codecs.memory import MomentumFeedback
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_buckets import creation_order
from tpack.multi_worker.tables.embedding import begin_tables
from tpack.multi_worker.uneven import weights_here
from tpack.multi_worker.worker_group import WorkerGroup, statistics_exchanged
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import merge_grad_list, split_grad_list, transposed
from tpack.reduction.sums import copy_slices_to_each, copy_to_each
from tpack.schedules import Schedule
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.grads import Column, Gradient, ReduceOp, is_sparse
from tpack.types import GradsAndVars
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments

_loss_scale = LazyModule("tpack.graph_builder.loss_scale")
_one_bit_adam = LazyModule("tpack.optimizers.one_bit_adam")


@check_arguments
class MultiWorkerReplicatedBuilder(SyncMultiGPUReplicatedBuilder):
    """Give each tower of each worker its own variables and optimizer, and reduce gradients over all of them.

    Every worker builds its own towers, as many as the others. They must begin with the same values: see
    `copy_from_worker`.

    Args:
        towers: the number of towers of this worker, or the numbers of their GPUs.
        group: the workers.
        average: average the gradients, or sum them.
        reducer: as for `SyncMultiGPUReplicatedBuilder`, inside a worker.
        accumulate: as for `SyncMultiGPUReplicatedBuilder`; in the steps between nothing travels, nor the stop flag.
        exchange: options of the exchange between workers; None means ``Exchange()``.
        stop_flag: a stop flag that travels with the gradients.
        tower_building: as for `DataParallelBuilder`.

    Attributes:
        own_gradients: those of this worker, before the exchange; with ``accumulate`` the sums of its towers, and this
            step's sparse ones.

    Raises:
        ConfigError: ``reducer`` or ``accumulate`` is something else, or the towers cannot be understood.
        DeviceError: A GPU does not exist on this machine, which has GPUs.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        group: WorkerGroup,
        *,
        average: bool = True,
        reducer: Reducer | None = None,
        exchange: Exchange | None = None,
        stop_flag: StopFlag | None = None,
        accumulate: int | Schedule = 1,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, average, reducer, accumulate=accumulate, tower_building=tower_building)
        self._group = group
        self._exchange = exchange
        self._stop_flag = stop_flag
        self.own_gradients: list[Gradient] = []

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, the reduction, the exchange, and one update for each tower.

        Returns:
            The train op, the towers, and ops that copy the main tower's state to the others of this worker: once, and
            before each epoch.

        Shapes:
            K x N gradients in, N between workers, K x N reduced gradients applied.

        Creates:
            What `SyncMultiGPUReplicatedBuilder` does, and queues in the tasks of the workers.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: The reducer or the exchange cannot serve these gradients.
        """
        weights = weights_here()
        tables = begin_tables(self._group, self._exchange, self._op, refused_with=self._no_tables_with())
        of_data = grad_fn if weights is None else weights.masked(grad_fn)
        # Statistics of batches would have those that weigh 0 in them.
        arrivals = getattr(self._exchange, "arrivals", None)
        with statistics_exchanged(self._group, arrivals) if weights is None else nullcontext():
            towers = build_replicas(
                tables.without_rows(of_data), self.devices, tower_building=self._tower_building, copies_are_set=True
            )
        optimizer = check_optimizer(optimizer_fn())
        _check_momentum(optimizer, self._exchange or Exchange())
        scale = optimizer.scale if isinstance(optimizer, _loss_scale.LossScaleOptimizer) else None
        _, variables = split_grad_list(towers.outputs)
        reduced_rows: list[list[Gradient]] = []

        def apply(grads: list[list[Gradient]]) -> tf.Operation:
            with tf.name_scope("reduce_gradients"):
                reduced = self._reduce(grads, [variable.op.name for variable in variables[0]], scale)
                of_tables, own = tables.exchange_gradients(optimizer)
            reduced_rows.append(reduced[0])
            self.own_gradients += own
            main, *others = merge_grad_list(reduced, variables)
            pairs, before = [[*main, *of_tables], *others], tf.global_variables()
            for context in towers.contexts[1:] if of_tables else ():
                # The main tower alone updates this worker's rows.
                context.recorder.may_lack_some = True
            update = apply_in_replicas(
                towers.contexts, pairs, optimizer, tower_building=self._tower_building, copies_are_set=True
            )
            return tables.applied(update, before)

        applied = self._applied(towers.outputs, apply)
        copying = copy_to_replicas(towers.contexts)
        sync_ops = (*applied.sync_ops, SyncOp(copying.op))
        how = self._exchange or Exchange()
        is_exact = weights is None and (self._group.size == 1 or (how.op is None and how.codec is None))
        gradients = None
        if is_exact:
            gradients = self._gradients_of_step(towers.outputs, reduced_rows[0], self._group.size)
        return BuildResult(applied.train_op, towers.contexts, copying.op, sync_ops, copying.copies, gradients)

    def _applied(self, tower_grads: Sequence[GradsAndVars], apply: Apply) -> Application:
        """Return the application of the towers' gradients, in each step or once in several."""
        applied = apply_every(self._accumulate, tower_grads, apply)
        if applied.sync_ops:
            self.own_gradients = applied.seen
            if self._stop_flag is not None:
                self._stop_flag.is_between_steps = True
        return applied

    def _no_tables_with(self) -> str:
        """Return the option with which there can be no table whose rows are dealt out; empty if there is none."""
        if self._accumulate != 1:
            return f"accumulate={self._accumulate!r}"
        if weights_here() is not None:
            return "UnevenData"
        op = None if self._exchange is None else self._exchange.op
        return "" if op is None else f"exchange={op!r}"

    def _reduce(
        self, grads: list[list[Gradient]], names: list[str], scale: tf.Tensor | None = None
    ) -> list[list[Gradient]]:
        weights = weights_here()
        op = self._op if weights is None else ReduceOp.SUM
        own = self._reducer.reduce(grads, op)
        self.own_gradients = list(own[0])
        if not own[0] or (self._group.size == 1 and weights is None):
            return own
        of_all = list(own[0])
        if self._group.size > 1:
            of_all = self._between_workers(of_all, creation_order(grads[0]), names, op, scale)
        if weights is not None and self._op is ReduceOp.MEAN:
            of_all = weights.mean(of_all, self._group)
        return transposed([_copied(grad, column) for grad, column in zip(of_all, transposed(grads), strict=True)])

    def _between_workers(
        self, sent: list[Gradient], order: list[int], names: list[str], op: ReduceOp, scale: tf.Tensor | None
    ) -> list[Gradient]:
        """Reduce this worker's gradients over the workers, with the stop flag."""
        how = self._exchange or Exchange()
        if self._stop_flag is not None and how.op is not None:
            self._exchange_stop_flag(self._stop_flag, how)
        elif self._stop_flag is not None:
            # First, so that gradients never wait for it.
            order = [len(sent), *order]
            sent.append(self._stop_flag.build())
            names = [*names, "the stop flag"]
        exchange = dataclasses.replace(how, names=names, scale=scale)
        of_all = all_reduce_between_workers(self._group, sent, op, exchange=exchange, ready_order=order)
        if self._stop_flag is not None and how.op is None:
            self._stop_flag.arrived(of_all.pop(), op, self._group.size)
        return of_all

    def _exchange_stop_flag(self, stop_flag: StopFlag, exchange: Exchange) -> None:
        """Exchange the stop flag by itself, as a sum, beside gradients that are not added."""
        flag = dataclasses.replace(exchange, op=None, names=["the stop flag"])
        own = [stop_flag.build()]
        (stop_flag.total,) = all_reduce_between_workers(self._group, own, ReduceOp.SUM, name="stop", exchange=flag)


def _check_momentum(optimizer: tf.train.Optimizer, exchange: Exchange) -> None:
    """Refuse momentum in place of gradients for an optimizer that does not expect it from the same step on."""
    memory = exchange.memory
    if not isinstance(memory, MomentumFeedback):
        return
    inner = optimizer
    while isinstance(inner, ProxyOptimizer):
        inner = inner.inner
    expected = {"freeze_step": exchange.start_step, "beta1": memory.beta1}
    if not isinstance(inner, _one_bit_adam.OneBitAdam) or {name: getattr(inner, name) for name in expected} != expected:
        raise ConfigError(
            f"Exchange got memory={memory!r} and start_step={exchange.start_step}, and the optimizer is "
            f"{type(inner).__name__}: expected OneBitAdam with the same beta1 and with freeze_step="
            f"{exchange.start_step}; use ErrorFeedback() for other optimizers"
        )


def _copied(grad: Gradient, column: Column) -> Column:
    return copy_slices_to_each(grad, column) if is_sparse(grad) else copy_to_each(grad, column)
