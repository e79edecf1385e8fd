"""The contract of reduction algorithms and of the wrappers around them.

K towers each computed N gradients. A `Reducer` gives every tower the sum or the mean over the towers, on the tower's
own device. Its interface takes gradients by tower, K x N; inside there are only columns, N x K. Checks, the split into
dense and sparse, and the case of one tower are handled here; an algorithm defines what happens to dense columns, and
may override sparse ones.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.gradients import check_columns, transposed
from tpack.reduction.sums import copy_slices_to_each, on_device, on_device_of, sum_column
from tpack.tower.context import current_frame, entered
from tpack.tower.grads import Column, Gradient, ReduceOp, is_sparse
from tpack.utils.validation import check_arguments

__all__ = ["Column", "ReduceOp", "Reducer", "ReducerWrapper"]


class Reducer(abc.ABC):
    """An algorithm that reduces the gradients of K towers and gives every tower the result.

    A reducer holds settings and no state of a graph: it may be used in many graphs, and several times in one. State
    from step to step is a `variable` of the graph. Input that the algorithm cannot reduce is an error; it never falls
    back to another algorithm.

    Call `reduce`; or, with columns that `reduce` or a reducer has checked, `reduce_columns`. A subclass defines
    ``name`` and `reduce_dense`, `check` if it has limits, and `reduce_sparse` if it has a better way than concatenating
    on one device. A reducer that prepares gradients for another derives from `ReducerWrapper`. One that combines
    several (`CompositeReducer`, `SplitBySizeReducer`) calls their `check` and `reduce_columns`.

    Example:
        ::

            class FirstTowerReducer(Reducer):
                name = "first_tower"

                def reduce_dense(self, columns, op):
                    reduced = []
                    for column in columns:
                        with on_device_of(column[0]):
                            total = sum_column(column, op)
                        reduced.append(copy_to_each(total, column))
                    return reduced
    """

    name: str
    """The algorithm, for logs and as the name scope of its operations."""

    is_linear = True
    """Whether the result is the sum or mean of the gradients, up to rounding."""

    def reduce(self, tower_grads: Sequence[Sequence[Gradient]], op: ReduceOp = ReduceOp.MEAN) -> list[list[Gradient]]:
        """Reduce K lists of N gradients over the towers.

        Args:
            tower_grads: one list per tower, in the same order of variables; tensors or ``IndexedSlices``.
            op: sum or mean over the towers.

        Returns:
            K lists of N gradients. Entry ``[k][n]`` is on the device of ``tower_grads[k][n]`` and is equal bit by bit
            for every k. With one tower, the gradients themselves.

        Shapes:
            tower_grads: K x N gradients, alike along K; returned: K x N gradients of the same shapes. The first
            dimension of sparse gradients is the sum over the towers.

        Raises:
            ReductionError: TensorFlow is in eager mode; the gradients are not a full rectangle of alike tensors;
                integers are to be averaged; or the algorithm does not support this number of towers, these devices,
                this dtype or this shape.
        """
        if tf.executing_eagerly():
            name = type(self).__name__
            raise ReductionError(f"{name} was called in eager mode: expected a graph; use with tf.Graph().as_default()")
        columns = check_columns(tower_grads, op)
        if len(tower_grads) == 1 or not columns:
            return [list(tower) for tower in tower_grads]
        return transposed(self.reduce_columns(columns, op))

    def reduce_columns(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce columns of K >= 2 gradients to as many, in the same order and the name scope of this reducer.

        Args:
            columns: at least one; dense and sparse in any order, each of alike members.
            op: sum or mean over the towers.

        Raises:
            ReductionError: From `check`.
        """
        dense = [column for column in columns if not is_sparse(column[0])]
        if dense:
            self.check(dense)
        with tf.name_scope(self.name):
            reduced_dense = iter(self.reduce_dense(dense, op) if dense else ())
            sparse = [column for column in columns if is_sparse(column[0])]
            reduced_sparse = iter(self.reduce_sparse(sparse, op) if sparse else ())
        return [next(reduced_sparse if is_sparse(column[0]) else reduced_dense) for column in columns]

    # Most algorithms have no limits, so the default is to do nothing.
    def check(self, columns: Sequence[Column]) -> None:  # noqa: B027
        """Raise a ReductionError for columns that the algorithm cannot reduce as dense ones, and leave the graph alone.

        A column may still be sparse or of another dtype where a wrapper converts it before the reduction.
        """

    @abc.abstractmethod
    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce one or more checked columns of K >= 2 dense tensors each; return as many columns of K."""

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce one or more columns of K >= 2 ``IndexedSlices``: concatenate each on the device of a tower in turn."""
        reduced: list[Column] = []
        for n, column in enumerate(columns):
            with on_device_of(column[n % len(column)]):
                total = sum_column(column, op)
            reduced.append(copy_slices_to_each(total, column))
        return reduced

    def variable(
        self,
        name: str,
        shape: tf.TensorShape | Sequence[int],
        device: str,
        *,
        dtype: tf.DType = tf.float32,
        initializer: Callable[..., tf.Tensor] | None = None,
    ) -> tf.Variable:
        """Create a variable that this reduction keeps from step to step, such as an error to feed back.

        Call it while gradients are reduced. The variable belongs to no tower: it is not trained, and is saved and
        restored with the model's variables, under the name scope of the reduction. A checkpoint of another number of
        towers may lack some or have more; the log says so, and missing ones are initialized. With several workers,
        each has its own; the checkpoint holds those of worker 0, from which all continue.

        Args:
            name: its name, such as ``f"error{n}_of_tower{k}"``.
            shape: its shape.
            device: its device, such as that of a gradient.
            dtype: its dtype.
            initializer: called with the shape and ``dtype=``, returns the first value; None for zeros.

        Returns:
            A resource variable. An operation that changes it runs only if a result depends on it.

        Raises:
            ReductionError: The shape is not fully defined, or the reduction has a variable of this name.

        Example:
            ::

                error = self.variable(f"error{n}_of_tower{k}", grad.shape, grad.device, dtype=grad.dtype)
                with tf.control_dependencies([error.assign(whole - sent, read_value=False)]):
                    sent = tf.identity(sent)
        """
        defined = tf.TensorShape(shape)
        if not defined.is_fully_defined():
            raise ReductionError(f"variable {name!r} got shape={defined}: expected a fully defined shape")
        scope = tf.get_default_graph().get_name_scope()
        expected = f"{scope}/{name}" if scope else name
        if tf.get_default_graph().unique_name(name, mark_as_used=False) != expected:
            raise ReductionError(f"this reduction has a variable {expected!r}: expected another name for each")
        make = initializer or tf.zeros_initializer()
        # Inside a device's update, a strategy leaves the variable alone instead of creating one per device.
        with on_device(device), entered(replace(current_frame(), update_device=device)):
            return tf.Variable(
                lambda: make(defined.as_list(), dtype=dtype.base_dtype), trainable=False, name=name, use_resource=True
            )


@check_arguments
class ReducerWrapper(Reducer):
    """A reducer around another one, to which it passes everything that a subclass does not override.

    Args:
        inner: the other one.
        kind: what the wrapper does, for the name.
    """

    def __init__(self, inner: Reducer, kind: str) -> None:
        self.inner = inner
        self.is_linear = inner.is_linear
        self.name = f"{kind}_{inner.name}"

    def check(self, columns: Sequence[Column]) -> None:
        """See `Reducer.check`."""
        self.inner.check(columns)

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """See `Reducer.reduce_dense`."""
        return self.inner.reduce_dense(columns, op)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """See `Reducer.reduce_sparse`."""
        return self.inner.reduce_sparse(columns, op)
