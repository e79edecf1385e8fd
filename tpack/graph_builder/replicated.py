"""K towers that each have their own variables: gradients are all-reduced, and every tower applies the same update."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn
from tpack.graph_builder.towers import BuiltTowers, DataParallelBuilder, build_towers, check_own_variables
from tpack.reduction.base import Reducer
from tpack.reduction.functions import merge_grad_list, split_grad_list
from tpack.reduction.gradients import ReduceOp
from tpack.reduction.modes import reducer_for_mode
from tpack.tfutils.optimizer_clone import check_optimizer, clone_optimizer
from tpack.tower.recorder import pair_variables
from tpack.utils import logger


class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """Gives each tower its own variables and optimizer, and reduces gradients over all towers.

    All towers start from the main tower's values and apply the same reduced gradients, so their trainable variables
    stay equal to the last bit. Only the main tower's variables are saved: the copies are local variables.

    Args:
        towers: how many towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
        mode: the name of a way to reduce, an all-reduce spec, a `Reducer`, ``"auto"`` to measure when the gradients are
            known and take the fastest (see `choose_by_measurement`), or None for what suits the devices.

    Raises:
        ConfigError: ``mode`` is not known, or the towers cannot be understood.
        ReductionError: ``mode`` cannot serve this number of towers.
        DeviceError: A GPU that the machine, having GPUs, does not have.
    """

    def __init__(self, towers: int | Sequence[int], average: bool = True, mode: Any = None) -> None:
        super().__init__(towers)
        self._op = ReduceOp.MEAN if average else ReduceOp.SUM
        self._reducer, self._reason = reducer_for_mode(mode, self.devices)

    @property
    def reducer(self) -> Reducer:
        """The reducer of the gradients."""
        return self._reducer

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, the reduction and one update for each tower.

        Args:
            grad_fn: see `GraphBuilder.build`.
            optimizer_fn: see `GraphBuilder.build`.

        Returns:
            The train op, the towers, and ops that copy the main tower's state to the others.

        Shapes:
            K x N gradients in, K x N reduced gradients applied.

        Creates:
            The variables and slots of tower k on device k; those of the main tower without a prefix, the others in the
            variable scope of their tower and in LOCAL_VARIABLES.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: The reducer cannot serve these gradients.

        Source:
            tensorpack's builder of the same name, which shares one optimizer between the towers and so gives other
            weights with Adam.
        """
        if len(self.devices) > 1:
            logger.info(f"Gradients of {len(self.devices)} towers are reduced by {self._reducer.name}: {self._reason}.")
        towers = build_towers(grad_fn, self.devices, [True] * len(self.devices))
        check_own_variables(towers.outputs, towers.contexts)
        train_op = self._apply(towers, check_optimizer(optimizer_fn()))
        main, *others = (tower.recorder for tower in towers.contexts)
        pairs = [pair for other in others for pair in pair_variables(main, other)]
        sync_op = _copy(pairs)
        copies = tuple(copy for _, copy in pairs)
        return BuildResult(train_op, towers.contexts, init_op=sync_op, sync_op=sync_op, copies=copies)

    def _apply(self, towers: BuiltTowers, optimizer: Any) -> Any:
        grads, variables = split_grad_list(towers.outputs)
        with tf.name_scope("reduce_gradients"):
            reduced = self._reducer.reduce(grads, self._op)
        updates = []
        for index, (context, pairs) in enumerate(
            zip(towers.contexts, merge_grad_list(reduced, variables), strict=True)
        ):
            own_optimizer = optimizer if index == 0 else clone_optimizer(optimizer)
            # In its tower, so that processors of gradients find every replica's variables under the same names.
            with context.revisited(), tf.device(self.devices[index]), context.recorder.scope():
                updates.append(own_optimizer.apply_gradients(pairs, name=f"apply_gradients_{index}"))
        return tf.group(*updates, name="train_op")


def _copy(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Return an op that copies every variable of the main tower, optimizer state included, to its copies."""
    assignments = []
    with tf.name_scope("sync_variables"):
        for main, copy in pairs:
            with tf.device(copy.device):
                assignments.append(copy.assign(main.read_value(), read_value=False))
    return tf.group(*assignments, name="sync_variables")
