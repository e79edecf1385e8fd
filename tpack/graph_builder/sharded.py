"""K towers with their own variables that divide the state of the optimizer: ZeRO's first stage, in one process.

Each trained variable has an owner, the tower that applies its gradient and alone has its slots. The other towers copy
the result. Slots have the names that they have with one tower, and are saved, so checkpoints are the same.

Optimizers around others see all gradients in each tower, so norms over all of them are those of replicated towers. The
innermost ones apply those of owned variables alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_builder.accumulation import apply_every
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder, build_replicas, copy_to_replicas
from tpack.graph_copy.towers import update_in_towers
from tpack.reduction.gradients import merge_grad_list, split_grad_list
from tpack.reduction.sums import on_device
from tpack.tfutils.optimizer_clone import check_optimizer, clone_optimizer
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.devices import deal_out
from tpack.tower.grads import Gradient, Pairs
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments


class ShardedReplicatedBuilder(SyncMultiGPUReplicatedBuilder):
    """Builder of replicated towers, each of which has the slots of its part of the variables alone.

    Arguments and errors are those of `SyncMultiGPUReplicatedBuilder`.
    """

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, the reduction, the updates by owners, and the copies of their results.

        Shapes:
            K x N gradients in; of the K x N reduced ones N are applied.

        Creates:
            The variables of tower k on device k; the slots of a variable on the device of its owner.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``, or has variables of a kind that cannot be
                divided.
            ReductionError: The reducer does not support these gradients.

        Source:
            Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020.
        """
        towers = build_replicas(grad_fn, self.devices, tower_building=self._tower_building, copies_are_set=True)
        optimizer = check_optimizer(optimizer_fn())
        _, variables = split_grad_list(towers.outputs)
        reduced_rows: list[list[Gradient]] = []

        def apply(grads: list[list[Gradient]]) -> tf.Operation:
            with tf.name_scope("reduce_gradients"):
                reduced = self._reducer.reduce(grads, self._op)
            reduced_rows.append(reduced[0])
            owners = choose_owners(variables[0], len(self.devices))
            update = apply_by_owners(towers.contexts, merge_grad_list(reduced, variables), optimizer, owners, grads)
            return tf.group(*update.ops, *copy_from_owners(update, variables, owners), name="train_op")

        applied = apply_every(self._accumulate, towers.outputs, apply)
        copying = copy_to_replicas(towers.contexts)
        sync_ops = (*applied.sync_ops, SyncOp(copying.op))
        gradients = self._gradients_of_step(towers.outputs, reduced_rows[0])
        return BuildResult(applied.train_op, towers.contexts, copying.op, sync_ops, copying.copies, gradients)


def choose_owners(variables: Sequence[tf.Variable], count: int) -> list[int]:
    """Return the owner of each of N variables, a number below ``count``, by their bytes: see `deal_out`."""
    sizes = [int(variable.shape.num_elements() or 0) * int(variable.dtype.size) for variable in variables]
    return deal_out(sizes, count)


class OwnerUpdate(NamedTuple):
    """The updates of K towers, each of its own part of the variables, and the slots of all parts."""

    ops: list[tf.Operation]
    slots: list[tf.Variable]


@check_arguments
def apply_by_owners(
    contexts: Sequence[TowerContext],
    tower_grads: Sequence[GradsAndVars],
    optimizer: tf.train.Optimizer,
    owners: Sequence[int | None],
    computed: Sequence[Sequence[Gradient]],
) -> OwnerUpdate:
    """Return the ops that apply the gradients of each variable in one of K towers, by an optimizer of its own.

    What an optimizer does after the update, such as a clipping of weights, it does to all variables in each tower, also
    to those whose gradients are applied in another: that waits for the tower's own gradients.

    Args:
        contexts: the K towers.
        tower_grads: K lists of N (gradient, variable) pairs.
        optimizer: the main tower's; the others get clones.
        owners: the tower of each of N variables; None for those that no tower updates.
        computed: K lists of all gradients of a tower, before their reduction.

    Creates:
        The slots, beside the owners' variables and under the names that the main tower's would have; they are saved.

    Raises:
        GraphBuildError: The optimizer has variables of another kind in a tower that the main tower has not.
    """
    mains = [variable for _, variable in tower_grads[0]] if tower_grads else []
    slots: list[tf.Variable] = []

    def apply(pairs: GradsAndVars) -> tf.Operation:
        context = current_tower_context()
        own_optimizer = optimizer if context.is_main_tower else clone_optimizer(optimizer)
        owned = [
            (variable, main)
            for (_, variable), main, owner in zip(pairs, mains, owners, strict=True)
            if owner == context.index
        ]
        made = _Slots(context, owned)
        with tf.control_dependencies(computed[context.index]):
            all_read = tf.no_op(name="all_read")
        with _applying_only(own_optimizer, made, all_read):
            update = own_optimizer.apply_gradients(pairs, name="apply_gradients")
        slots.extend(made.variables)
        return update

    updates = update_in_towers(contexts, apply, tower_grads, "build")
    _check_other_variables(contexts)
    for context in contexts[1:]:
        context.recorder.may_lack_some = True
    return OwnerUpdate(updates, slots)


def copy_from_owners(
    update: OwnerUpdate, variables: Sequence[Sequence[tf.Variable]], owners: Sequence[int]
) -> list[tf.Operation]:
    """Return the assignments of N updated variables of their owners to the other K - 1 towers, K x N in all."""
    assignments = []
    for column, owner in zip(zip(*variables, strict=True), owners, strict=True):
        with on_device(column[owner].device), tf.control_dependencies([update.ops[owner]]):
            value = column[owner].read_value()
        for k, copy in enumerate(column):
            if k != owner:
                # What an optimizer does after the update of variables, it does to all in each tower.
                with on_device(copy.device), tf.control_dependencies([update.ops[k]]):
                    assignments.append(copy.assign(value, read_value=False))
    return assignments


@contextmanager
def _applying_only(optimizer: tf.train.Optimizer, slots: "_Slots", all_read: tf.Operation) -> Iterator[None]:
    """Let the innermost optimizers apply the gradients of owned variables alone, and end after ``all_read``."""
    leaves = list({id(leaf): leaf for leaf in _innermost(optimizer)}.values())
    for leaf in leaves:
        leaf.apply_gradients = _Filtered(leaf.apply_gradients, slots, all_read)
    try:
        yield
    finally:
        for leaf in leaves:
            del leaf.apply_gradients


@dataclass(frozen=True)
class _Filtered:
    """The method ``apply_gradients`` of an optimizer for some variables."""

    apply: Any
    slots: "_Slots"
    all_read: tf.Operation

    def __call__(
        self, grads_and_vars: Pairs, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        owned = {id(variable) for variable, _ in self.slots.owned}
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if id(variable) in owned]
        if pairs:
            with self.slots.scope():
                return tf.group(self.apply(pairs, global_step), self.all_read, name=name)
        with tf.control_dependencies([self.all_read]):
            return tf.no_op(name) if global_step is None else global_step.assign_add(1, read_value=False, name=name)


def _innermost(optimizer: tf.train.Optimizer) -> Iterable[tf.train.Optimizer]:
    """Yield the optimizers that have no others in their attributes."""
    inner = [each for value in vars(optimizer).values() for each in _optimizers_in(value)]
    if not inner:
        yield optimizer
    for each in inner:
        yield from _innermost(each)


def _optimizers_in(value: Any) -> Iterable[tf.train.Optimizer]:
    if isinstance(value, tf.train.Optimizer):
        yield value
    elif type(value) in (list, tuple, dict):
        for each in value.values() if type(value) is dict else value:
            yield from _optimizers_in(each)


@dataclass
class _Slots:
    """The slots that an optimizer makes in a tower: global variables with the names of the main tower's.

    Attributes:
        context: the tower.
        owned: pairs of a variable of this tower that has slots here and the main tower's.
        variables: the slots.
    """

    context: TowerContext
    owned: Sequence[tuple[tf.Variable, tf.Variable]]
    variables: list[tf.Variable] = field(default_factory=list)

    @contextmanager
    def scope(self) -> Iterator[None]:
        with tf.variable_creator_scope(self._create):
            yield

    def _create(self, creator: Any, **kwargs: Any) -> tf.Variable:
        name = self._saved_name(kwargs.get("name") or "")
        if name is None:
            return creator(**kwargs)
        with self.context.recorder.paused():
            variable = creator(**{**kwargs, "name": name})
        self.variables.append(variable)
        return variable

    def _saved_name(self, name: str) -> str | None:
        """Return the name of a slot in the main tower; None for a variable that is no slot of an owned one."""
        scope = self.context.vs_name
        for variable, main in sorted(self.owned, key=lambda pair: -len(pair[0].op.name)):
            before, found, slot = name.rpartition(f"{variable.op.name}/")
            if found and (not before or before.endswith("/")):
                outer = before.removeprefix(f"{scope}/") if scope else before
                return f"{outer}{main.op.name}/{slot}"
        return None


def _check_other_variables(contexts: Sequence[TowerContext]) -> None:
    main = contexts[0].recorder.by_name()
    for context in contexts[1:]:
        if alone := context.recorder.by_name().keys() - main.keys():
            raise GraphBuildError(
                f"shard_optimizer got an optimizer that makes {sorted(alone)} in tower {context.index}: expected slots "
                "of variables, and counters that the main tower has too; use shard_optimizer=False"
            )
