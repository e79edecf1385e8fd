"""Differentiable sums and means over towers inside the model, for synchronised layers.

Each tower passes a tensor and gets the sum over the towers on its own device. The gradient of that sum is the sum of
the towers' gradients. With it, the mean of the towers' gradients is the gradient of the towers' mean cost, as if one
tower had the whole batch. Without it, towers with their own variables would lack the other towers' part of a gradient,
and towers that share variables would build theirs through every other tower.

Each of these functions is one `TowerContext.merge_call` of all towers, and its gradient another.
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
    """Sum one tensor of each training tower; all of them must call it.

    The sum is computed once, in the same order in every run, and is equal bit by bit in every tower.

    Args:
        tensor: this tower's summand, dense and of a floating-point type.

    Returns:
        The sum, on the device of ``tensor``. With one tower, and in a tower for prediction, ``tensor`` itself.

    Shapes:
        As ``tensor``, which has the same shape in all towers.

    Raises:
        TowerError: There is no current tower, or the gradient is built outside of it.
        TowerMismatchError: Not all towers call it, or its gradient.
        ReductionError: The tensors are not floating-point, or differ in dtype or shape.

    Source:
        The gradient is that of the all-reduce op in tensorpack's synchronised batch normalisation.
    """
    tower = current_tower_context()
    if not _has_partners(tower):
        return tensor
    return _link(tower, tensor, tower.merge_call(_sum_columns, tensor), sum_over_towers)


@check_arguments
def mean_over_towers(tensor: tf.Tensor) -> tf.Tensor:
    """Average one tensor of each training tower: `sum_over_towers` divided by their number, with the same errors.

    Args:
        tensor: as for `sum_over_towers`.

    Shapes:
        As ``tensor``.
    """
    tower = current_tower_context()
    if not _has_partners(tower):
        return tensor
    return sum_over_towers(tensor) / tf.constant(ReduceOp.MEAN.divisor(tower.total), tensor.dtype.base_dtype)


@check_arguments
def stack_over_towers(tensor: tf.Tensor) -> tf.Tensor:
    """Stack one tensor of each training tower, with the same errors as `sum_over_towers`; all of them must call it.

    Use it for other functions than a sum, such as a variance over all towers: each tower computes it from the stack.

    Args:
        tensor: this tower's part, small, dense and of a floating-point type.

    Returns:
        The tensors in the order of the towers, on the device of ``tensor``. In a tower for prediction, one.

    Shapes:
        [K, ...], from K tensors of the same shape.
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
                f"tower 0 has {first.name} of {first.dtype.name} and shape {first.shape}, tower {index} has "
                f"{tensor.name} of {tensor.dtype.name} and shape {tensor.shape}: expected the same in every tower"
            )
    if not first.dtype.is_floating:
        raise ReductionError(f"expected floating-point tensors, got {first.name} of {first.dtype.name}")


def _link(
    tower: TowerContext, tensor: tf.Tensor, result: tf.Tensor, backward: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return ``result`` with a gradient with respect to this tower's ``tensor`` alone."""

    def gradient(grad: tf.Tensor) -> tuple[tf.Tensor, None]:
        if get_current_tower_context() is not tower:
            raise TowerError(
                f"the gradient of {result.name}, which is shared by all towers, must be built in {tower!r}, where "
                "the other towers build theirs"
            )
        return backward(tf.convert_to_tensor(grad)), None

    @tf.custom_gradient
    def linked(_tensor: tf.Tensor, bits: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
        return tf.bitcast(bits, result.dtype), gradient

    # As bits, the result has no path back into the towers. TensorFlow searches for one in Python, and would walk
    # through the graphs of all towers in each of them, in an order that differs from tower to tower.
    return linked(tensor, tf.bitcast(result, _BITS[result.dtype.size]))
