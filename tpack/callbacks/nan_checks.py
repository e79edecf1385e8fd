"""Stop at NaN or infinity, and name the tensors; checked before every save too, so that checkpoints stay usable.

`CheckCost` checks the cost of each epoch's last step and the weights in every training, at no cost for other steps.
`CheckNumerics` checks all tensors of the train op in the order of their creation, to find the origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.compat.graphs import control_flow_of
from tpack.errors import NumericsError
from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors
from tpack.types import Counters
from tpack.utils import logger
from tpack.utils.validation import check_arguments

MAX_NAMED = 5
"""The most tensors that the error names."""

_BATCH_NORM_OUTPUTS = 3
_CHECKED_DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


class CheckCost(Callback):
    """Raise an error if the cost or a trainable variable is not finite at the end of an epoch.

    Trainers use it unless their ``checks_cost`` is False. A bad cost of an earlier step shows in the variables.

    Args:
        costs: scalar tensors of the train op, each of which must be finite.
        in_each_step: fetch the costs in every step: XLA would compile a last step with more fetches separately.
    """

    _chief_only = False

    def __init__(self, costs: Sequence[tf.Tensor], *, in_each_step: bool = False) -> None:
        self._costs = tuple(costs)
        self._in_each_step = in_each_step
        self._request = tf.train.SessionRunArgs(self._costs)
        self._values: Sequence[np.floating] = ()
        self._checks: list[tuple[str, tf.Operation]] = []
        self._check_all: tf.Operation
        self._loop: Counters

    def _setup_graph(self) -> None:
        self._loop = self.trainer.loop
        for variable in tf.trainable_variables():
            if variable.dtype.base_dtype in _CHECKED_DTYPES:
                # On the variable's device, without a copy.
                with tf.device(variable.device):
                    check = tf.check_numerics(variable.read_value(), variable.op.name)
                self._checks.append((variable.op.name, check.op))
        self._check_all = tf.group(*(check for _, check in self._checks))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        # On the hot path of each step.
        loop = self._loop
        if not self._in_each_step and loop.local_step + loop.num_coming != loop.steps_per_epoch:
            return None
        return self._request if ctx.original_args.fetches is self.trainer.train_op else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._values = values.results

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(last=self._costs)

    def _trigger_epoch(self) -> None:
        self._before_save()

    def _before_save(self) -> None:
        costs = zip(self._costs, self._values, strict=bool(self._values))
        bad = [f"cost '{cost.op.name}' is {value}" for cost, value in costs if not np.isfinite(value)]
        if self._fails(self._check_all):
            variables = [name for name, check in self._checks if self._fails(check)]
            bad.append(f"NaN or infinity is in {_some(variables)}")
        if bad:
            raise NumericsError(
                f"{' and '.join(bad)} after step {self.global_step} (epoch {self.epoch_num}); training stopped, "
                "nothing was saved. Find the first bad tensor with CheckNumerics(run_step=True), or continue with "
                "TrainConfig(check_cost=False) or checks_cost = False of the trainer"
            )

    def _fails(self, check: tf.Operation) -> bool:
        try:
            self.trainer.sess.run(check)
        except tf.errors.InvalidArgumentError:
            return True
        return False

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; without costs nothing is fetched."""
        return bool(self._costs) if hook in ("before_run", "after_run") else super().implements(hook)


@check_arguments
class CheckNumerics(Callback):
    """Raise an error if a floating point tensor of the step, or a variable, is not finite.

    Each tensor gets one small operation.

    Args:
        run_as_trigger: check the variables when triggered and before every save; after a trigger, check the tensors in
            the next step too, since a separate run would take a batch from training.
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

    def _with_several_steps(self) -> WithSteps | None:
        if self._runs_with_step:
            return None
        return WithSteps() if self._tensor_check is None else WithSteps(last=(self._tensor_check,))

    def _trigger(self) -> None:
        if self._runs_as_trigger:
            self._is_due = True
            self._check_variables()

    def _before_save(self) -> None:
        if self._runs_as_trigger:
            self._check_variables()

    def _check_variables(self) -> None:
        if self._variable_check is not None:
            self._raise_if_not_finite(self._variables, self.trainer.sess.run(self._variable_check))

    def _raise_if_not_finite(self, checked: Sequence[tf.Tensor | tf.Variable], finite: Sequence[bool]) -> None:
        bad = [item.name for item, is_finite in zip(checked, finite, strict=True) if not is_finite]
        if bad:
            raise NumericsError(f"NaN or infinity at step {self.global_step}: {_some(bad)}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _are_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor | None:
    """Return a vector with a boolean for each tensor; None for no tensors."""
    checks = []
    for tensor in tensors:
        # On the tensor's device: only one byte is copied.
        with tf.device(tensor.device):
            checks.append(tf.reduce_all(tf.is_finite(tensor)))
    return tf.stack(checks) if checks else None


def _checkable_outputs(graph: tf.Graph, train_op: tf.Operation | tf.Tensor) -> Iterator[tf.Tensor]:
    needed = ancestors([train_op])
    conditional: set[tf.Operation] = set()
    for op in graph.get_operations():
        # Tensors in loops and branches, and in updates of only some steps, cannot be fetched.
        if control_flow_of(op) is not None or _runs_sometimes(op, conditional):
            conditional.add(op)
        # Constants are intended.
        elif op in needed and op.type != "Const":
            # Further outputs of fused batch normalization depend on the kernel, and their shapes can be wrong.
            outputs = op.outputs[:_BATCH_NORM_OUTPUTS] if op.type.startswith("FusedBatchNorm") else op.outputs
            yield from (tensor for tensor in outputs if tensor.dtype.base_dtype.is_floating)


def _runs_sometimes(op: tf.Operation, conditional: set[tf.Operation]) -> bool:
    """Tell whether an operation is a branch, or depends on one."""
    if op.type in op_kinds.JOINING:
        return False
    needs = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return op.type == "Switch" or any(each in conditional for each in needs)
