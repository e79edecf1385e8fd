"""Reduce the gradients of all towers, each to where its variable is, and count the steps.

What then updates the variables depends on the strategy: one optimizer for variables of one copy, one for each device
for mirrored ones.

What the loss says about how gradients are to be brought together.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import last_loss_reduction
from tpack.distribute.values import DistributedValues, Mirrored, PerDevice
from tpack.errors import GraphBuildError, TowerMismatchError

GradsAndVars = list[tuple[Any, Any]]
_is_updating: ContextVar[bool] = ContextVar("tpack_applies_reduced_gradients", default=False)


@contextmanager
def updating() -> Iterator[None]:
    """Say, in the block in which optimizers update variables, that the gradients which they get are reduced.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        Written for tpack.
    """
    token = _is_updating.set(True)
    try:
        yield
    finally:
        _is_updating.reset(token)


def is_updating() -> bool:
    """Tell whether gradients are reduced already where this is called: in a block of `updating`.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        Written for tpack.
    """
    return _is_updating.get()


def reduce_gradients(strategy: Any, grads_and_vars: Iterable[tuple[Any, Any]]) -> GradsAndVars:
    """Reduce the gradients of all towers, in a cross-tower context.

    Args:
        strategy: the strategy, whose context is current.
        grads_and_vars: (gradient, variable) pairs; gradients of locality T. Pairs without a gradient are left out.

    Returns:
        (gradient, variable) pairs: the gradients summed or averaged, as `get_loss_reduction` says, of locality V(v).
        For a variable of one copy, the gradient is a plain one.

    Shapes:
        Each gradient has the shape of its variable, or is an ``IndexedSlices`` into it.

    Raises:
        GraphBuildError: No variable has a gradient, or one belongs to each tower by itself.
        TowerMismatchError: A variable has a gradient in some towers only.
        ReductionError: The gradients of a variable differ in kind, dtype or shape.

    Source:
        ``Optimizer._distributed_apply`` of TensorFlow 1.
    """
    pairs = list(grads_and_vars)
    for grad, variable in pairs:
        _check_pair(grad, variable)
    trained = [(grad, variable) for grad, variable in pairs if grad is not None]
    if not trained:
        raise GraphBuildError(f"none of {len(pairs)} variable(s) has a gradient: there is nothing to apply")
    reduced = strategy.batch_reduce(get_loss_reduction(), trained)
    return [(_plain(grad, variable), variable) for grad, (_, variable) in zip(reduced, trained, strict=True)]


def advance(strategy: Any, global_step: Any, after: list[Any], name: str) -> Any:
    """Return the operation that adds one to a counter after other operations, in a cross-tower context.

    Args:
        strategy: the strategy, whose context is current.
        global_step: a variable, mirrored or not.
        after: the operations.
        name: the name of the one that is returned.

    Shapes:
        global_step: a scalar.

    Raises:
        Nothing.

    Source:
        ``Optimizer.apply_gradients`` of TensorFlow 1.
    """
    with tf.control_dependencies(after):
        return strategy.group(strategy.update(global_step, lambda counter: tf.assign_add(counter, 1).op), name)


def _check_pair(grad: Any, variable: Any) -> None:
    if isinstance(variable, PerDevice):
        raise GraphBuildError(f"{variable!r} is another variable on each device: no optimizer can keep it the same")
    if isinstance(grad, DistributedValues):
        without = [device for device, part in grad.index.items() if part is None]
        if without:
            raise TowerMismatchError(
                f"{variable.op.name} has a gradient in some towers, and none on {', '.join(without)}"
            )


def _plain(grad: Any, variable: Any) -> Any:
    is_on_one_device = isinstance(grad, Mirrored) and not isinstance(variable, DistributedValues)
    return grad.get(variable.device) if is_on_one_device else grad


def get_loss_reduction() -> Any:
    """Return how towers' gradients are aggregated, after the last loss of ``tf.losses`` in the current graph.

    Returns:
        ``tf.VariableAggregation.SUM`` if that loss was made with ``tf.losses.Reduction.SUM``, else, or if there is
        none, ``tf.VariableAggregation.MEAN``.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The function of the same name in the seed ``distribute``.
    """
    is_sum = last_loss_reduction() == tf.losses.Reduction.SUM
    return tf.VariableAggregation.SUM if is_sum else tf.VariableAggregation.MEAN
