"""K towers with their own variables: gradients are all-reduced, and every tower applies the same update.

Builders of one's own can use the parts: `build_replicas`, then `apply_in_replicas`, then `copy_to_replicas`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.compat.operations import add_nodes
from tpack.graph_builder.accumulation import apply_every, check_steps
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, StepGradients, SyncOp
from tpack.graph_builder.towers import BuiltTowers, DataParallelBuilder, align_own_gradients, build_towers
from tpack.graph_copy.towers import TowerBuilding, update_in_towers
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import merge_grad_list, split_grad_list
from tpack.reduction.names import choose_by_heuristic
from tpack.schedules import Schedule
from tpack.tfutils.optimizer_clone import check_optimizer, clone_optimizer
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.grads import Gradient, ReduceOp
from tpack.tower.ownership import pair_variables
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments


@check_arguments
class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """Builder of towers with their own variables and optimizers, whose gradients are reduced over all towers.

    All towers start from the main tower's values and apply the same reduced gradients, so their trainable variables
    stay equal to the last bit. Only the main tower's variables are saved: the copies are local variables.

    Args:
        towers: the number of towers, or the numbers of their GPUs.
        average: average the gradients, or sum them.
        reducer: the reducer; None chooses by the kinds of the devices. `reducer_for_mode` parses text.
        accumulate: the number of steps whose gradients are summed in each tower, then reduced and applied once; a
            `Schedule` gives that of each epoch.
        tower_building: see `DataParallelBuilder`.

    Raises:
        ConfigError: ``reducer``, ``accumulate`` or ``towers`` is invalid.
        DeviceError: The machine has GPUs, but not one of these.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        average: bool = True,
        reducer: Reducer | None = None,
        *,
        accumulate: int | Schedule = 1,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, tower_building=tower_building)
        self._accumulate = check_steps(self, "accumulate", accumulate)
        self._op = ReduceOp.MEAN if average else ReduceOp.SUM
        self._reducer = choose_by_heuristic(self.devices).reducer if reducer is None else reducer

    @property
    def reducer(self) -> Reducer:
        """The reducer of the gradients."""
        return self._reducer

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, the reduction and one update for each tower.

        The result has ops that copy the main tower's state to the others: once, and before each epoch. With
        ``accumulate``, one applies the gradients of several steps.

        Shapes:
            K x N gradients in, K x N reduced gradients applied.

        Creates:
            The variables and slots of tower k on device k; those of the main tower without a prefix, the others in the
            variable scope of their tower and in LOCAL_VARIABLES.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: The reducer does not support these gradients.

        Source:
            tensorpack's builder, which shares one optimizer between the towers and so computes other weights with Adam.
        """
        towers = build_replicas(grad_fn, self.devices, tower_building=self._tower_building, copies_are_set=True)
        optimizer = check_optimizer(optimizer_fn())
        _, variables = split_grad_list(towers.outputs)
        reduced_rows: list[list[Gradient]] = []

        def apply(grads: list[list[Gradient]]) -> tf.Operation:
            with tf.name_scope("reduce_gradients"):
                reduced = self._reducer.reduce(grads, self._op)
            reduced_rows.append(reduced[0])
            return apply_in_replicas(
                towers.contexts,
                merge_grad_list(reduced, variables),
                optimizer,
                tower_building=self._tower_building,
                copies_are_set=True,
            )

        applied = apply_every(self._accumulate, towers.outputs, apply)
        copying = copy_to_replicas(towers.contexts)
        sync_ops = (*applied.sync_ops, SyncOp(copying.op))
        gradients = self._gradients_of_step(towers.outputs, reduced_rows[0])
        return BuildResult(applied.train_op, towers.contexts, copying.op, sync_ops, copying.copies, gradients)

    def _gradients_of_step(
        self, towers: Sequence[GradsAndVars], reduced: Sequence[Gradient], num_workers: int = 1
    ) -> StepGradients | None:
        """Return the gradients of K towers with the reduced ones; None where they are not a step's sum or mean."""
        if self._accumulate != 1 or not self._reducer.is_linear:
            return None
        return StepGradients(split_grad_list(towers)[0], reduced, self._op, len(towers) * num_workers)


class Copying(NamedTuple):
    """Operation that copies the main tower's variables to the other towers, and its targets."""

    op: tf.Operation
    copies: tuple[tf.Variable, ...]


@check_arguments
def build_replicas(
    grad_fn: GradFn, devices: Sequence[str], *, tower_building: TowerBuilding = "auto", copies_are_set: bool = False
) -> BuiltTowers[GradsAndVars]:
    """Call ``grad_fn`` in K towers with their own variables; the n-th pairs are of copies of one variable.

    Args:
        grad_fn: builds one tower.
        devices: K names.
        tower_building: see `call_in_replicated_towers`.
        copies_are_set: whether `copy_to_replicas` runs before the variables are used; see `call_in_replicated_towers`.

    Raises:
        TowerMismatchError: The towers created or trained different variables.
    """
    towers = build_towers(
        grad_fn, devices, [True] * len(devices), tower_building=tower_building, copies_are_set=copies_are_set
    )
    return BuiltTowers(align_own_gradients(towers.outputs, towers.contexts), towers.contexts)


@check_arguments
def apply_in_replicas(
    contexts: Sequence[TowerContext],
    tower_grads: Sequence[GradsAndVars],
    optimizer: tf.train.Optimizer,
    *,
    tower_building: TowerBuilding = "auto",
    copies_are_set: bool = False,
) -> tf.Operation:
    """Return the op that applies each tower's gradients to its variables, by an optimizer of its own.

    Args:
        contexts: the K towers.
        tower_grads: K lists of N (gradient, variable) pairs.
        optimizer: the main tower's; the others get clones.
        tower_building: see `call_in_replicated_towers`.
        copies_are_set: as for `build_replicas`.

    Creates:
        The slots of each optimizer, beside their variables.

    Raises:
        GraphBuildError: ``tower_building`` requires copies, and they cannot be made.
    """

    def apply(pairs: GradsAndVars) -> tf.Operation:
        # Called in its tower, so that gradient processors find every replica's variables under the same names.
        is_main = current_tower_context().is_main_tower
        own_optimizer = optimizer if is_main else clone_optimizer(optimizer)
        return own_optimizer.apply_gradients(pairs, name="apply_gradients")

    updates = update_in_towers(contexts, apply, tower_grads, tower_building, copies_are_set=copies_are_set)
    return tf.group(*updates, name="train_op")


@check_arguments
def copy_to_replicas(contexts: Sequence[TowerContext]) -> Copying:
    """Return the op that copies all variables of the main tower, optimizer state included, to the other towers."""
    main, *others = (context.recorder for context in contexts)
    pairs = [pair for other in others for pair in pair_variables(main, other)]
    with tf.name_scope("sync_variables") as scope:
        assignments = _add_assignments(pairs, scope)
        op = tf.group(*assignments, name="sync_variables")
    return Copying(op, tuple(copy for _, copy in pairs))


def _add_assignments(pairs: Sequence[tuple[tf.Variable, tf.Variable]], scope: str) -> list[tf.Operation]:
    """Add the thousands of assignments of copies in one import of nodes."""
    graph = tf.get_default_graph()
    values = {id(main): graph.as_graph_element(main) for main, _ in pairs}
    inputs: dict[str, tf.Tensor] = {}
    nodes = tf.GraphDef(versions=graph.graph_def_versions)
    for main, copy in pairs:
        value = values[id(main)]
        inputs |= {copy.op.name: copy.handle, value.op.name: value}
        node = nodes.node.add(
            name=f"{scope}{copy.op.name}",
            op="AssignVariableOp",
            device=copy.device,
            input=[copy.op.name, value.op.name],
        )
        node.attr["dtype"].type = value.dtype.as_datatype_enum
        node.attr["validate_shape"].b = copy.shape.is_fully_defined()
    return add_nodes(graph, nodes, inputs, {})
