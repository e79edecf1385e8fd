"""Lists of gradients: K lists of N turned into N columns of K and checked; pairs with variables split and merged.

All towers run the same function, so whatever differs between them is a mistake of the model or of its caller. It is
found here, before any operation is added to the graph, and named by tower, by index and by tensor.
"""

from collections.abc import Mapping, Sequence
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
        tower_grads: one list of gradients for each tower, dense or ``IndexedSlices``.
        op: what will be done with them.

    Returns:
        N columns of K gradients.

    Raises:
        ReductionError: There is no tower, towers have lists of different lengths, or a column has a member that is
            None, no tensor, or unlike the others in kind, dtype or static shape; or the dtype cannot be summed or
            averaged.
    """
    if not isinstance(op, ReduceOp):
        raise ReductionError(f"expected ReduceOp.SUM or ReduceOp.MEAN, got {op!r}")
    if not tower_grads:
        raise ReductionError("expected the gradients of at least one tower, got none")
    for k, grads in enumerate(tower_grads):
        if len(grads) != len(tower_grads[0]):
            raise ReductionError(
                f"tower {k} has {len(grads)} gradients and tower 0 has {len(tower_grads[0])}: "
                "expected one for each variable"
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
        ReductionError: An entry is no pair.

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
            raise ReductionError(
                f"gradient {n} of tower {k} is {gradient!r}: expected a tensor or IndexedSlices, as towers have "
                "of other "
                "variables. Filter out variables without a gradient before the reduction"
            )
    _check_dtype(n, column[0], op)
    shape = column[0].shape
    rows = column[0].values.shape[1:] if is_sparse(column[0]) else shape
    for k, gradient in enumerate(column[1:], start=1):
        _check_alike(n, k, column[0], gradient)
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


def _check_alike(n: int, k: int, first: Gradient, gradient: Gradient) -> None:
    column = {0: first, k: gradient}
    if is_sparse(gradient) != is_sparse(first):
        raise ReductionError(_difference(n, k, column, "kind", _kind(gradient), _kind(first)))
    if gradient.dtype.base_dtype != first.dtype.base_dtype:
        raise ReductionError(_difference(n, k, column, "dtype", gradient.dtype.name, first.dtype.name))
    if is_sparse(gradient) and gradient.indices.dtype != first.indices.dtype:
        raise ReductionError(
            _difference(n, k, column, "indices of dtype", gradient.indices.dtype.name, first.indices.dtype.name)
        )


def _kind(gradient: Gradient) -> str:
    return "IndexedSlices" if is_sparse(gradient) else "dense"


def _difference(n: int, k: int, column: Column | Mapping[int, Gradient], what: str, got: object, wanted: object) -> str:
    return (
        f"gradient {n} of tower {k} ({column[k].name}) has {what} {got}, and the towers before it ({column[0].name}) "
        f"have {what} {wanted}: expected the same in every tower"
    )
