"""Gradients of several steps, summed where they are made, then reduced and applied once.

A step adds the gradients of each tower to sums on their devices. A `SyncOp` divides the sums by the number of steps in
them, reduces and applies the means, and clears the sums. So nothing travels between towers and workers in the steps
between, and what an optimizer does to gradients, such as clipping, it does to the means.

Sums are local variables, which no checkpoint holds: they are applied before one is saved.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.base import SyncOp
from tpack.reduction.gradients import check_columns, split_grad_list
from tpack.reduction.sums import on_device, on_device_of
from tpack.schedules import Schedule
from tpack.tfutils.dependency import dependents
from tpack.tfutils.optimizer import DenseAccumulator, SparseAccumulator
from tpack.tower.collections import MOVING_SUMMARY_OPS_KEY, CollectionSnapshot
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_count, mismatch

Apply: TypeAlias = Callable[[list[list[Gradient]]], tf.Operation]
"""Reduces and applies K lists of N gradients."""

_HERE = "/device:CPU:0"
_NAME = "accumulate"
_MOST_EPOCHS = 10_000
"""The epochs of a schedule whose values are checked beforehand."""


def check_steps(owner: object, name: str, steps: int | Schedule) -> int | Schedule:
    """Return a number of steps, or a `Schedule` of numbers by epochs.

    Raises:
        WrongTypeError: It is neither.
        ConfigError: It is less than 1, in some epoch.
    """
    if not isinstance(steps, Schedule):
        return check_count(owner, name, steps)
    for epoch in range(int(min(steps.length, _MOST_EPOCHS)) + 2):
        if round(steps.value_at(epoch)) < 1:
            found = f"a Schedule with {steps.value_at(epoch):g} in epoch {epoch + 1}"
            raise ConfigError(mismatch(owner, name, found, "at least 1 in each epoch"))
    return steps


@dataclass(frozen=True)
class Application:
    """Application of gradients, in each step or once in several.

    Attributes:
        train_op: the operation of a step.
        sync_ops: what runs between steps.
        seen: the gradients that a step hands on: those of the first tower where each step applies them; otherwise the
            sums with this step's in them, of all towers, and the values of this step's sparse ones.
    """

    train_op: tf.Operation
    sync_ops: tuple[SyncOp, ...]
    seen: list[Gradient]


@check_arguments
def apply_every(steps: int | Schedule, towers: Sequence[GradsAndVars], apply: Apply) -> Application:
    """Apply the gradients of each step, or the mean of several steps' once.

    Args:
        steps: the number of steps.
        towers: K lists of N (gradient, variable) pairs.
        apply: reduces and applies K lists of N gradients; called once.

    Shapes:
        The mean of dense gradients has their shape. That of `IndexedSlices` has each row that was touched once.

    Creates:
        For several steps, a local variable of the shape of its variable for each gradient, beside it, for
        `IndexedSlices` one that marks rows, and a counter of steps.

    Raises:
        ConfigError: A number of steps is less than 1.
        ReductionError: The gradients are no full rectangle of alike tensors.
    """
    check_steps("apply_every", "steps", steps)
    grads, _ = split_grad_list(towers)
    if steps == 1:
        return Application(apply(grads), (), grads[0])
    check_columns(grads, ReduceOp.SUM)
    with tf.name_scope(_NAME), on_device(_HERE):
        counter = _local("steps", [], tf.int64)
        additions, num_steps = [counter.assign_add(1, read_value=False)], counter.read_value()
    sums = [[_Sum.of(grad, v, k) for grad, v in pairs] for k, pairs in enumerate(towers)]
    for row in sums:
        additions += [each.addition for each in row]
    train_op = tf.group(*additions, name="train_op")
    means = [[each.mean(num_steps) for each in row] for row in sums]
    with _evaluated_between_steps(num_steps.op) as stored:
        update = apply(means)
    with tf.control_dependencies([update, num_steps]), tf.name_scope(_NAME):
        with on_device(_HERE):
            resets = [counter.assign(0, read_value=False)]
        resets += [each.reset() for row in sums for each in row]
    sync_op = SyncOp(tf.group(*resets, *stored, name="apply_accumulated"), steps, num_steps)
    return Application(train_op, (sync_op,), [each.seen for row in sums for each in row])


@dataclass(frozen=True)
class _Sum:
    """Sum of the gradients of one variable in one tower.

    Attributes:
        gradient: that of a step.
        accumulator: holds the sum.
        addition: adds the gradient.
        seen: see `Application`.
    """

    gradient: Gradient
    accumulator: DenseAccumulator | SparseAccumulator
    addition: tf.Operation
    seen: Gradient

    @staticmethod
    def of(gradient: Gradient, variable: tf.Variable, tower: int) -> "_Sum":
        """Make the sum of a gradient."""
        with tf.name_scope(_NAME), on_device_of(gradient):
            name = f"tower{tower}/{variable.op.name}"
            total = _local(name, variable.shape, gradient.dtype.base_dtype)
            if is_sparse(gradient):
                touched = _local(f"{name}/touched", variable.shape[:1], tf.bool)
                sparse = SparseAccumulator(total, touched)
                return _Sum(gradient, sparse, sparse.add(gradient), gradient)
            dense = DenseAccumulator(total)
            addition = dense.add(gradient)
            with tf.control_dependencies([addition]):
                return _Sum(gradient, dense, addition, total.read_value())

    def mean(self, num_steps: tf.Tensor) -> Gradient:
        """Return the sum divided by a number of steps."""
        with tf.name_scope(_NAME):
            with on_device(_HERE):
                divisor = tf.cast(num_steps, self.gradient.dtype.base_dtype)
            with on_device_of(self.gradient):
                return self.accumulator.mean(divisor)

    def reset(self) -> tf.Operation:
        """Return the operation that clears the sum."""
        with on_device_of(self.gradient):
            return self.accumulator.reset()


@contextmanager
def _evaluated_between_steps(needed: tf.Operation) -> Iterator[list[tf.Operation]]:
    """Yield a list that gets the operations that store the block's summaries of what needs an operation.

    A step that evaluated a summary of reduced gradients would reduce them. So such a summary is evaluated with the
    list, and collections get what was stored; updates of moving averages are in the list themselves.
    """
    before = CollectionSnapshot()
    stored: list[tf.Operation] = []
    yield stored
    graph, latest = tf.get_default_graph(), {}
    added = {key: before.added(key) for key in graph.get_all_collection_keys()}
    summaries = {id(each): each for items in added.values() for each in items if _is_summary(each)}
    updates = [getattr(each, "op", each) for each in added.get(MOVING_SUMMARY_OPS_KEY, ())]
    if not summaries and not updates:
        return
    between = set(dependents([needed]))
    stored += [update for update in updates if update in between]
    for number, summary in enumerate(each for each in summaries.values() if each.op in between):
        with tf.name_scope(_NAME), on_device(_HERE):
            variable = _local(f"summary{number}", [], tf.string, tf.constant_initializer(""))
            stored.append(variable.assign(summary, read_value=False))
            latest[id(summary)] = variable.read_value()
    for key in added:
        collection = graph.get_collection_ref(key)
        collection[:] = [latest.get(id(each), each) for each in collection if getattr(each, "op", each) not in stored]


def _is_summary(item: object) -> bool:
    return isinstance(item, tf.Tensor) and item.dtype == tf.string


def _local(name: str, shape: tf.TensorShape | list[int], dtype: tf.DType, initializer: object = None) -> tf.Variable:
    """Return a variable that is not saved, zero at first."""
    with tf.variable_scope(tf.VariableScope(reuse=False, name=""), auxiliary_name_scope=False):
        return tf.get_variable(
            f"{_NAME}/{name}",
            shape,
            dtype,
            tf.zeros_initializer() if initializer is None else initializer,
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
