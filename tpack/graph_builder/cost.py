"""Gradients of a cost, in each training tower of a single-cost model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_builder.base import GradFn, OptimizerFn
from tpack.graph_builder.compiled import TowerCompiler, watched
from tpack.graph_copy import op_kinds
from tpack.graph_copy.towers import replicate_by_copy
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tfutils.summary import scalar_tags
from tpack.tower.collections import STATISTICS_KEY, TRAINED_TENSORS_KEY
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.keras_values import frozen_among
from tpack.tower.names import join_scope
from tpack.tower.tower_func import TowerFunc, TowerHandle
from tpack.types import GradsAndVars
from tpack.utils import logger
from tpack.utils.validation import check_arguments

_MOST_NAMES = 5
"""The most variables that a message names."""


@check_arguments
@dataclass(frozen=True)
class GradientOptions:
    """Arguments of ``compute_gradients``, by TensorFlow's names."""

    colocate_gradients_with_ops: bool = True
    gate_gradients: bool = False
    aggregation_method: int | None = None


@check_arguments
def make_grad_fn(
    get_inputs: Callable[[], Sequence[tf.Tensor]],
    tower_func: TowerFunc,
    optimizer_fn: OptimizerFn,
    options: GradientOptions,
    *,
    compiler: TowerCompiler | None = None,
) -> GradFn:
    """Return the function that builds one tower of a single-cost model and returns its gradients.

    Args:
        get_inputs: returns the input tensors of one tower; called once in each.
        tower_func: the model; returns the cost.
        optimizer_fn: returns the optimizer, for its ``compute_gradients``.
        options: arguments of ``compute_gradients``.
        compiler: marks operations for XLA; None for none.

    Shapes:
        The cost is a scalar; gradients have the shapes of their variables.

    Raises:
        GraphBuildError: From the returned function: the cost is not a scalar floating-point tensor, there is no
            trainable variable, or the cost depends on none of them.

    Source:
        ``SingleCostTrainer`` of tensorpack.
    """

    def build(*inputs: tf.Tensor) -> GradsAndVars:
        tower = current_tower_context()
        with watched(compiler, tower):
            cost = check_cost(tower_func(*inputs))
        variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        if not variables:
            # Variables that the first tower made once and keeps, as in a Keras layer, have no copies.
            hint = ": the tower function must create its variables anew in each tower" if tower.index else ""
            if frozen := frozen_among(tower.recorder.variables):
                hint = f": all {len(frozen)} of Keras layers are not trainable; use layer.trainable = True for some"
            raise GraphBuildError(f"there is nothing to train: {tower!r} has no trainable variables{hint}")
        _check_all_trained(cost, tower)
        with tower.outside():
            optimizer = check_optimizer(optimizer_fn())
        gating = tf.train.Optimizer.GATE_GRAPH if options.gate_gradients else tf.train.Optimizer.GATE_NONE
        others = tower.get_collection_in_tower(TRAINED_TENSORS_KEY)
        with watched(compiler, tower):
            grads = optimizer.compute_gradients(
                cost,
                var_list=[*variables, *others],
                gate_gradients=gating,
                aggregation_method=options.aggregation_method,
                colocate_gradients_with_ops=options.colocate_gradients_with_ops,
            )
        found = _without_none(grads, quiet=not tower.is_main_training_tower)
        if compiler is not None:
            updates = tower.get_collection_in_tower(tf.GraphKeys.UPDATE_OPS)
            compiler.mark(tower, [cost, *(grad for grad, _ in found), *updates])
            tower.repeat_in_copies(compiler.note_copy)
        return found

    def grad_fn() -> GradsAndVars:
        # Only the inputs differ between towers.
        return list(replicate_by_copy(build, *get_inputs()))

    return grad_fn


def statistics_of_towers(towers: Sequence[TowerHandle]) -> dict[str, tf.Tensor]:
    """Return the statistics of a step by name: the mean over training towers of the cost, then of their notes.

    With one tower they are its own tensors; notes are in the collection `STATISTICS_KEY`. The name of the cost is
    ``cost``, or the model's name for it if it notes or summarises the cost.
    """
    prefix = join_scope(towers[0].ns_name, "")
    noted = zip(*(tower.get_collection(STATISTICS_KEY) for tower in towers), strict=True)
    others = {each[0].op.name.removeprefix(prefix): each for each in noted}
    own_name = towers[0].output.op.name.removeprefix(prefix)
    cost_name = own_name if own_name in {*others, *scalar_tags()} else "cost"
    values = {cost_name: tuple(tower.output for tower in towers), **others}
    # A step passes them to Python, and to averages, for which any device is as good.
    with tf.name_scope("mean_of_towers"), tf.device("/device:CPU:0"):
        return {name: _mean(tensors, name) for name, tensors in values.items()}


def _mean(tensors: Sequence[tf.Tensor], name: str) -> tf.Tensor:
    if len(tensors) == 1:
        return tensors[0]
    return tf.multiply(tf.add_n(tensors), 1 / len(tensors), name=name)


def check_cost(cost: object) -> tf.Tensor:
    """Return the cost; raise a `GraphBuildError` unless it is a floating-point scalar tensor."""
    if cost is None:
        raise GraphBuildError("build_graph returned None: expected the cost to minimise, a scalar tensor")
    if not isinstance(cost, tf.Tensor):
        raise GraphBuildError(f"build_graph returned {cost!r}: expected the cost, a scalar tensor")
    if cost.shape.rank != 0 or not cost.dtype.is_floating:
        raise GraphBuildError(
            f"build_graph returned {cost.name} with shape {cost.shape} and dtype {cost.dtype.name}: expected a "
            "floating-point scalar, the cost"
        )
    return cost


def _check_all_trained(cost: tf.Tensor, tower: TowerContext) -> None:
    """Check that the cost of a tower with variables of its own depends on no trainable variables of others."""
    hidden = {v.op.name for v in tower.collections.hidden(tf.GraphKeys.TRAINABLE_VARIABLES)}
    used = sorted(hidden & _trained_by(cost)) if hidden else []
    if used:
        more = f" and {len(used) - _MOST_NAMES} more" if len(used) > _MOST_NAMES else ""
        raise GraphBuildError(
            f"the cost of {tower!r} depends on trainable variables that were made outside of it: "
            f"{', '.join(used[:_MOST_NAMES])}{more}. Towers with variables of their own do not train these: make the "
            "whole model, a Keras model too, in build_graph"
        )


def _trained_by(cost: tf.Tensor) -> set[str]:
    """Return the names of the variables that gradients of the cost reach."""
    waiting, found = [cost.op], {cost.op}
    while waiting:
        op = waiting.pop()
        if op.type in op_kinds.STOPPING_GRADIENTS:
            continue
        for tensor in op.inputs:
            carries = tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype == tf.resource
            if carries and tensor.op not in found:
                found.add(tensor.op)
                waiting.append(tensor.op)
    return {op.name for op in found}


def _without_none(grads: GradsAndVars, *, quiet: bool) -> GradsAndVars:
    unused = [variable.op.name for grad, variable in grads if grad is None]
    if len(unused) == len(grads):
        raise GraphBuildError(f"the cost depends on none of the trainable variables: {', '.join(unused)}")
    if unused and not quiet:
        logger.warning(f"The cost does not depend on these trainable variables, which stay as they are: {unused}")
    return [(grad, variable) for grad, variable in grads if grad is not None]
