"""Lists of gradients: K lists of N turned into N columns of K and checked; pairs with variables split and merged.

All towers run the same function, so a difference between them is a mistake of the model or of the caller. It is found
before any operation is added to the graph, and reported by tower, index and tensor.
"""

from collections.abc import Sequence
from typing import TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.tower.grads import Column, Gradient, ReduceOp, is_sparse
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments

T = TypeVar("T")


def check_columns(tower_grads: Sequence[Sequence[Gradient]], op: ReduceOp) -> list[tuple[Gradient, ...]]:
    """Check K lists of N gradients and return them by variable.

    Args:
        tower_grads: one list of gradients per tower, dense or ``IndexedSlices``.
        op: the reduction to come.

    Returns:
        N columns of K gradients.

    Raises:
        ReductionError: There is no tower; lists differ in length; a column has a member that is None, not a tensor, or
            unlike the others in kind, dtype or static shape; or the dtype cannot be summed or averaged.
    """
    if not isinstance(op, ReduceOp):
        raise ReductionError(f"the reduction got op={op!r}: expected ReduceOp.SUM or ReduceOp.MEAN")
    if not tower_grads:
        raise ReductionError("expected the gradients of at least one tower, got none")
    for k, grads in enumerate(tower_grads):
        if len(grads) != len(tower_grads[0]):
            raise ReductionError(
                f"tower {k} has {len(grads)} gradients and tower 0 has {len(tower_grads[0])}: expected one per variable"
            )
    columns = list(zip(*tower_grads, strict=True))
    for n, column in enumerate(columns):
        _check_column(n, column, op)
    return columns


def transposed(rows: Sequence[Sequence[T]]) -> list[list[T]]:
    """Return one or more lists of towers by variable, or those of variables by tower."""
    return [list(column) for column in zip(*rows, strict=True)]


@check_arguments
def split_grad_list(grad_list: Sequence[GradsAndVars]) -> tuple[list[list[Gradient]], list[list[tf.Variable]]]:
    """Split lists of (gradient, variable) into lists of gradients and lists of variables.

    Args:
        grad_list: for each tower a list of (gradient, variable).

    Returns:
        The gradients of each tower, and the variables of each tower.

    Shapes:
        grad_list: K x N x 2; returned: K x N and K x N.

    Raises:
        ReductionError: An entry is not a pair.

    Source:
        tensorpack's graph builder.
    """
    for k, tower in enumerate(grad_list):
        for n, pair in enumerate(tower):
            if len(pair) != 2:
                raise ReductionError(f"entry {n} of tower {k} is {pair!r}: expected a (gradient, variable) pair")
    grads = [[grad for grad, _ in tower] for tower in grad_list]
    variables = [[variable for _, variable in tower] for tower in grad_list]
    return grads, variables


@check_arguments
def merge_grad_list(
    all_grads: Sequence[Sequence[Gradient | None]], all_vars: Sequence[Sequence[tf.Variable]]
) -> list[GradsAndVars]:
    """Merge lists of gradients and lists of variables into lists of (gradient, variable).

    Args:
        all_grads: the gradients of each tower.
        all_vars: the variables of each tower, in the same order.

    Returns:
        For each tower a list of (gradient, variable).

    Shapes:
        all_grads: K x N; all_vars: K x N; returned: K x N x 2.

    Raises:
        ReductionError: The two are not of one shape.

    Source:
        tensorpack's graph builder.
    """
    if [len(grads) for grads in all_grads] != [len(variables) for variables in all_vars]:
        raise ReductionError(
            f"expected as many gradients as variables in each tower, got {[len(grads) for grads in all_grads]} "
            "gradients "
            f"and {[len(variables) for variables in all_vars]} variables"
        )
    return [list(zip(grads, variables, strict=True)) for grads, variables in zip(all_grads, all_vars, strict=True)]


def _check_column(n: int, column: Column, op: ReduceOp) -> None:
    for k, gradient in enumerate(column):
        if not isinstance(gradient, tf.Tensor | tf.IndexedSlices):
            expected = "a tensor or IndexedSlices; filter out variables without a gradient before the reduction"
            raise ReductionError(f"gradient {n} of tower {k} is {gradient!r}: expected {expected}")
    _check_dtype(n, column[0], op)
    shape = column[0].shape
    rows = column[0].values.shape[1:] if is_sparse(column[0]) else shape
    for k, gradient in enumerate(column[1:], start=1):
        _check_alike(n, k, column)
        if not gradient.shape.is_compatible_with(shape):
            raise ReductionError(_difference(n, k, column, "shape", gradient.shape, shape))
        shape = shape.merge_with(gradient.shape)
        if is_sparse(gradient):
            if not gradient.values.shape[1:].is_compatible_with(rows):
                raise ReductionError(_difference(n, k, column, "rows of shape", gradient.values.shape[1:], rows))
            rows = rows.merge_with(gradient.values.shape[1:])


def _check_dtype(n: int, first: Gradient, op: ReduceOp) -> None:
    dtype = first.dtype.base_dtype
    if not (dtype.is_floating or dtype.is_integer or dtype.is_complex):
        raise ReductionError(f"gradient {n} ({first.name}) has dtype {dtype.name}, which cannot be summed")
    if op is ReduceOp.MEAN and dtype.is_integer:
        raise ReductionError(
            f"gradient {n} ({first.name}) has dtype {dtype.name}: the mean of integers is not an integer; "
            "use ReduceOp.SUM, or cast to a floating-point type"
        )


def _check_alike(n: int, k: int, column: Column) -> None:
    own, first = (_properties(column[index]) for index in (k, 0))
    for what, value in own.items():
        if value != first[what]:
            raise ReductionError(_difference(n, k, column, what, value, first[what]))


def _properties(gradient: Gradient) -> dict[str, str]:
    """Return the properties that towers have in common; those of sparse gradients after their kind."""
    if not is_sparse(gradient):
        return {"kind": "dense", "dtype": gradient.dtype.base_dtype.name}
    indices = gradient.indices.dtype.name
    return {"kind": "IndexedSlices", "dtype": gradient.dtype.base_dtype.name, "indices of dtype": indices}


def _difference(n: int, k: int, column: Column, what: str, got: object, expected: object) -> str:
    return (
        f"gradient {n} of tower {k} ({column[k].name}) has {what} {got}, and the towers before it ({column[0].name}) "
        f"have {what} {expected}: expected the same in every tower"
    )
