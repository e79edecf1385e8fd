"""Stop when a number is not finite, and say which.

The tensors that the train op depends on are looked at in the order in which they were created, so that the first one
named is where the trouble began and not where it arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import NumericsError
from tpack.tfutils.dependency import ancestors
from tpack.utils import logger

MAX_NAMED = 5
"""How many of the tensors that are not finite the error names."""

_BATCH_NORM_OUTPUTS = 3


class CheckNumerics(Callback):
    """Raise an error when a floating point tensor of the step, or a variable, holds NaN or infinity.

    A check adds one small operation for each tensor. Do not use it for a model that computes with infinities on
    purpose.

    Args:
        run_as_trigger: when triggered, check the variables at once and the tensors in the next step: a check on its own
            would take data away from training.
        run_step: check the tensors in every step.
    """

    _chief_only = False

    def __init__(self, run_as_trigger: bool = True, run_step: bool = False) -> None:
        self._runs_as_trigger = run_as_trigger
        self._runs_with_step = run_step
        self._is_due = run_step
        self._tensors: list[tf.Tensor] = []
        self._variables: list[tf.Variable] = []
        self._tensor_check: tf.Tensor | None = None
        self._variable_check: tf.Tensor | None = None

    def _setup_graph(self) -> None:
        train_op = self.trainer.train_op
        if train_op is None:
            logger.warning(f"{self}: the trainer has no train_op, only variables are checked")
        else:
            self._tensors = list(_checkable_outputs(self.graph, train_op))
        self._variables = [v for v in tf.global_variables() if v.dtype.base_dtype.is_floating]
        self._tensor_check = _are_finite(self._tensors)
        self._variable_check = _are_finite([v.read_value() for v in self._variables])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Tensor | None:
        return self._tensor_check if self._is_due else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._is_due = self._runs_with_step
            self._raise_if_not_finite(self._tensors, values.results)

    def _trigger(self) -> None:
        if not self._runs_as_trigger:
            return
        self._is_due = True
        if self._variable_check is not None:
            self._raise_if_not_finite(self._variables, self.trainer.sess.run(self._variable_check))

    def _raise_if_not_finite(self, checked: Sequence[tf.Tensor | tf.Variable], finite: Sequence[bool]) -> None:
        bad = [item.name for item, is_finite in zip(checked, finite, strict=True) if not is_finite]
        if bad:
            more = f" and {len(bad) - MAX_NAMED} more" if len(bad) > MAX_NAMED else ""
            names = ", ".join(bad[:MAX_NAMED])
            raise NumericsError(f"NaN or infinity at step {self.global_step}, where numbers were wanted: {names}{more}")


def _are_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor | None:
    """Return a vector that says of each tensor whether all of it is finite; None for no tensors."""
    checks = []
    for tensor in tensors:
        # The check goes where the tensor is: only one byte travels.
        with tf.device(tensor.device):
            checks.append(tf.reduce_all(tf.is_finite(tensor)))
    return tf.stack(checks) if checks else None


def _checkable_outputs(graph: tf.Graph, train_op: tf.Operation | tf.Tensor) -> Iterator[tf.Tensor]:
    needed = ancestors([train_op])
    conditional: set[tf.Operation] = set()
    for op in graph.get_operations():
        # Inside a loop or a branch a tensor can not be fetched, nor what an optimizer does on some of the steps only.
        if op._get_control_flow_context() is not None or _runs_sometimes(op, conditional):
            conditional.add(op)
        # What the user wrote as a constant is meant.
        elif op in needed and op.type != "Const":
            yield from (tensor for tensor in _outputs_with_meaning(op) if tensor.dtype.base_dtype.is_floating)


def _runs_sometimes(op: tf.Operation, conditional: set[tf.Operation]) -> bool:
    """Tell whether an operation chooses a way, or hangs on one that is not taken in every step."""
    if op.type in ("Merge", "Exit"):
        return False
    needs = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return op.type == "Switch" or any(each in conditional for each in needs)


def _outputs_with_meaning(op: tf.Operation) -> Sequence[tf.Tensor]:
    """Return an operation's outputs, less those in which fused batch normalisation keeps things for its gradient.

    What is in those depends on the kernel; those of the gradient do not even have the shape that they are said to have.
    """
    return op.outputs[:_BATCH_NORM_OUTPUTS] if op.type.startswith("FusedBatchNorm") else op.outputs
