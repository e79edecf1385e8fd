"""Differentiable sums and means over towers inside the model, for synchronised layers.

Each tower passes a tensor and gets the sum over the towers on its own device. The gradient of that sum is the sum of
the towers' gradients. With it, the mean of the towers' gradients is the gradient of the towers' mean cost, as if one
tower had the whole batch. Without it, towers with their own variables would lack the other towers' part of a gradient,
and towers that share variables would build theirs through every other tower.

Each of these functions is one `TowerContext.merge_call` of all towers, and its gradient another.

`stack_over_workers` does the same over the towers of several processes, in a block of `across_workers`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError, TowerError
from tpack.reduction.sums import copy_to_each, on_device_of, sum_tensors
from tpack.tower.context import TowerContext, current_tower_context, get_current_tower_context
from tpack.tower.grads import ReduceOp
from tpack.tower.per_graph import PerGraph
from tpack.utils.launch_env import worker_place
from tpack.utils.validation import check_arguments

# Gradients do not pass through integers.
_BITS = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}


class WorkerExchange(Protocol):
    """Exchange of small tensors in a step between W workers, all of which make the same calls in the same order."""

    def gather(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the tensors [K, ...] of all workers by rank, [W * K, ...]."""

    def scatter_sums(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the rows [K, ...] of this worker in the sum over the workers of tensors [W * K, ...]."""


class _Exchanges:
    """The blocks of `across_workers` that are open, and what crosses workers in a graph."""

    def __init__(self) -> None:
        self.open: list[WorkerExchange | None] = []
        self.results: list[tf.Operation] = []


_exchanges: PerGraph[_Exchanges] = PerGraph(_Exchanges)


@contextmanager
def across_workers(exchange: WorkerExchange | None) -> Iterator[None]:
    """Let `stack_over_workers` in the block use an exchange; None where several workers have none in a step."""
    here = _exchanges.here()
    here.open.append(exchange)
    try:
        yield
    finally:
        here.open.pop()


def worker_exchange(owner: str) -> WorkerExchange | None:
    """Return the exchange of the innermost block of `across_workers`; None in a process that trains alone.

    Raises:
        ConfigError: There are several workers, and no exchange between them in a step.
    """
    opened = _exchanges.here().open
    exchange = opened[-1] if opened else None
    if exchange is None and (opened or worker_place(os.environ)[1] > 1):
        raise ConfigError(
            f"{owner} is to be synchronised over several workers: expected MultiWorkerTrainerReplicated, without "
            "sync_every_steps or UnevenData; use the towers of each process"
        )
    return exchange


def results_across_workers() -> list[tf.Operation]:
    """Return the operations of the current graph that have waited for other workers in `stack_over_workers`."""
    return list(_exchanges.here().results)


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


@check_arguments
def stack_over_workers(tensor: tf.Tensor) -> tf.Tensor:
    """Stack one tensor of each training tower of all workers, as `stack_over_towers` does for those of one process.

    It is two exchanges in each step, of which one is in the backward pass. All workers have to make the step: whatever
    evaluates the result in one worker alone waits for the others.

    Args:
        tensor: this tower's part, small, dense, of a floating-point type and of a known shape.

    Returns:
        The tensors in the order of the workers, and in each of the towers.

    Shapes:
        [W * K, ...], from W * K tensors of the same shape.

    Raises:
        ConfigError: There are several workers, and no exchange between them in a step.
    """
    exchange = worker_exchange("a statistic") if current_tower_context().is_training else None
    return stack_over_towers(tensor) if exchange is None else _stack_over(exchange, tensor)


def _stack_over(exchange: WorkerExchange, tensor: tf.Tensor) -> tf.Tensor:
    tower = current_tower_context()
    stacked = tower.merge_call(partial(_gather_columns, exchange), tensor)
    return _link(tower, tensor, stacked, partial(_own_row_of_sums, exchange))


def _own_row_of_sums(exchange: WorkerExchange, grad: tf.Tensor) -> tf.Tensor:
    """Return this tower's row of the sum of gradients [W * K, ...] over the towers of all workers."""
    tower = current_tower_context()
    own = tower.merge_call(partial(_scatter_columns, exchange), grad)
    return _link(tower, grad, own[tower.index], partial(_stack_over, exchange))


def _has_partners(tower: TowerContext) -> bool:
    return tower.is_training and tower.total > 1


def _sum_columns(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return _combine("sum_over_towers", sum_tensors, tensors)


def _stack_columns(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return _combine("stack_over_towers", tf.stack, tensors)


def _gather_columns(exchange: WorkerExchange, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return _combine("stack_over_workers", lambda parts: _noted(exchange.gather(tf.stack(parts))), tensors)


def _scatter_columns(exchange: WorkerExchange, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    def scatter(grads: Sequence[tf.Tensor]) -> tf.Tensor:
        return _noted(exchange.scatter_sums(sum_tensors(grads)))

    return _combine("sum_over_workers", scatter, tensors)


def _noted(result: tf.Tensor) -> tf.Tensor:
    _exchanges.here().results.append(result.op)
    return result


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
