"""Sums and means over towers inside the model, differentiable: what synchronised layers are made of.

Each tower gives a tensor and gets the sum of all towers' back, on its own device. What every tower's cost gains from
one tower's tensor is the sum of what all of them gain from their copy of the result; so the gradient is the same sum,
of the towers' gradients. With it, the mean of the towers' gradients is the gradient of the towers' mean cost, as if one
tower had the whole batch. Without it, gradients of towers with variables of their own would lack the other towers'
part, and those of towers that share variables would be built through every other tower.

Towers meet in each of these functions once, and once more for its gradient (`TowerContext.merge_call`).
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError, TowerError
from tpack.reduction.sums import copy_to_each, on_device_of, sum_tensors
from tpack.tower.context import TowerContext, current_tower_context, get_current_tower_context
from tpack.tower.grads import ReduceOp
from tpack.utils.validation import check_arguments

# Gradients do not pass through integers.
_BITS = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}


@check_arguments
def sum_over_towers(tensor: tf.Tensor) -> tf.Tensor:
    """Sum one tensor of each training tower; to be called in all of them.

    The sum is made once, in the same order in every run, and is the same in every tower, bit by bit.

    Args:
        tensor: this tower's summand, dense and of a floating-point type.

    Returns:
        The sum, on the device of ``tensor``. With one tower, and in a tower for prediction, ``tensor`` itself.

    Shapes:
        As ``tensor``, which has the same shape in all towers.

    Raises:
        TowerError: There is no current tower, or the gradient is built outside of it.
        TowerMismatchError: Not all towers call it, or call its gradient.
        ReductionError: The tensors are not floating-point, or differ in dtype or shape.

    Source:
        The gradient is that of the all-reduce op of tensorpack's synchronised batch normalisation.
    """
    tower = current_tower_context()
    if not _has_partners(tower):
        return tensor
    return _link(tower, tensor, tower.merge_call(_sum_columns, tensor), sum_over_towers)


@check_arguments
def mean_over_towers(tensor: tf.Tensor) -> tf.Tensor:
    """Average one tensor of each training tower: `sum_over_towers` divided by their number.

    Args:
        tensor: as for `sum_over_towers`.

    Returns:
        The mean, on the device of ``tensor``.

    Shapes:
        As ``tensor``.

    Raises:
        TowerError: As `sum_over_towers`.
        TowerMismatchError: As `sum_over_towers`.
        ReductionError: As `sum_over_towers`.
    """
    tower = current_tower_context()
    if not _has_partners(tower):
        return tensor
    return sum_over_towers(tensor) / tf.constant(ReduceOp.MEAN.divisor(tower.total), tensor.dtype.base_dtype)


@check_arguments
def stack_over_towers(tensor: tf.Tensor) -> tf.Tensor:
    """Give every training tower the tensors of all; to be called in each of them.

    It is for what is no plain sum, such as a variance over all towers: each tower computes it from the stack.

    Args:
        tensor: this tower's part, small, dense and of a floating-point type.

    Returns:
        The towers' tensors in their order, on the device of ``tensor``. In a tower for prediction, one.

    Shapes:
        [K, ...], from K tensors of the same shape.

    Raises:
        TowerError: As `sum_over_towers`.
        TowerMismatchError: As `sum_over_towers`.
        ReductionError: As `sum_over_towers`.
    """
    tower = current_tower_context()
    if not _has_partners(tower):
        return tensor[tf.newaxis]
    stacked = tower.merge_call(_stack_columns, tensor)
    return _link(tower, tensor, stacked, lambda grad: sum_over_towers(grad)[tower.index])


def _has_partners(tower: TowerContext) -> bool:
    return tower.is_training and tower.total > 1


def _sum_columns(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return _combine("sum_over_towers", sum_tensors, tensors)


def _stack_columns(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return _combine("stack_over_towers", tf.stack, tensors)


def _combine(
    name: str, combine: Callable[[Sequence[tf.Tensor]], tf.Tensor], tensors: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    _check_alike(tensors)
    with tf.name_scope(name):
        with on_device_of(tensors[0]):
            combined = combine(tensors)
        return copy_to_each(combined, tensors)


def _check_alike(tensors: Sequence[tf.Tensor]) -> None:
    first = tensors[0]
    for index, tensor in enumerate(tensors):
        if tensor.dtype.base_dtype != first.dtype.base_dtype or not tensor.shape.is_compatible_with(first.shape):
            raise ReductionError(
                f"tensors of all towers must be alike: tower 0 has {first.name} of {first.dtype.name} and shape "
                f"{first.shape}, tower {index} has {tensor.name} of {tensor.dtype.name} and shape {tensor.shape}"
            )
    if not first.dtype.is_floating:
        raise ReductionError(f"expected floating-point tensors of each tower, got {first.name} of {first.dtype.name}")


def _link(
    tower: TowerContext, tensor: tf.Tensor, result: tf.Tensor, backward: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return ``result`` with a gradient with respect to this tower's ``tensor`` alone."""

    def gradient(grad: tf.Tensor) -> tuple[tf.Tensor, None]:
        if get_current_tower_context() is not tower:
            raise TowerError(
                f"the gradient of {result.name}, which towers computed together, must be built in {tower!r}, where "
                "the other towers build theirs"
            )
        return backward(tf.convert_to_tensor(grad)), None

    @tf.custom_gradient
    def linked(_tensor: tf.Tensor, bits: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
        return tf.bitcast(bits, result.dtype), gradient

    # As bits, the result has no path back into the towers. TensorFlow looks for one in Python, and in each tower it
    # would walk through the graphs of all of them, in an order that differs from tower to tower.
    return linked(tensor, tf.bitcast(result, _BITS[result.dtype.size]))
