"""Run an operation before training, when triggered, or with every step.

A user's operation changes the variables of the main tower. Towers with own variables get the same assignments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps, training_towers
from tpack.errors import CallbackError
from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors
from tpack.tower.ownership import pair_variables
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.validation import check_arguments, mismatch

Runnable: TypeAlias = tf.Operation | tf.Tensor | tf.Variable


@check_arguments
class RunOp(Callback):
    """Run an operation, on all towers if it changes a variable of the main tower.

    Args:
        op: an operation or tensor, or a function without arguments that makes one when the graph is set up and may
            return None for nothing to run.
        run_before: run it before training.
        run_as_trigger: run it when triggered, that is after each epoch unless wrapped.
        run_step: run it with every step.
        verbose: log each run, except those with a step.

    Raises:
        CallbackError: ``op``, or its result, is not an operation or tensor.
    """

    _chief_only = False

    def __init__(
        self,
        op: Runnable | Callable[[], Runnable | None],
        run_before: bool = True,
        run_as_trigger: bool = True,
        run_step: bool = False,
        verbose: bool = False,
    ) -> None:
        self._op = op if callable(op) else _as_operation(op)
        self._runs_before = run_before
        self._runs_as_trigger = run_as_trigger
        self._runs_with_step = run_step
        self._verbose = verbose
        self._name = ""
        self._fetch: tf.Operation | None = None

    @property
    def with_step(self) -> tf.Operation | None:
        """The operation that runs with every step, once the graph is set up; None for none."""
        return self._fetch if self._runs_with_step else None

    def _setup_graph(self) -> None:
        made = self._op() if callable(self._op) else self._op
        if made is not None:
            op = _as_operation(made)
            self._name = op.name
            self._fetch = self._with_copies(op)

    def _with_copies(self, op: tf.Operation) -> tf.Operation:
        """Return an operation that also assigns the main tower's new values to the copies."""
        pairs = copies_in_towers(self.trainer)
        changed = {
            needed.inputs[0].op.name
            for needed in (ancestors([op]) if pairs else ())
            if needed.type.startswith(op_kinds.CHANGE_PREFIXES)
            and len(needed.inputs)
            and needed.inputs[0].dtype == tf.resource
        }
        pairs = [(main, copy) for main, copy in pairs if main.op.name in changed and copy.op.name not in changed]
        if not pairs:
            return op
        with tf.control_dependencies([op]):
            assignments = []
            for main, copy in pairs:
                with tf.device(copy.device):
                    assignments.append(copy.assign(main.read_value(), read_value=False))
        return tf.group(op, *assignments, name="on_all_towers")

    def _before_train(self) -> None:
        if self._runs_before:
            self._run("before training")

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Operation | None:
        return self.with_step

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._fetch is None else WithSteps(each=(self._fetch,))

    def _trigger(self) -> None:
        if self._runs_as_trigger:
            self._run("as triggered")

    def _run(self, when: str) -> None:
        if self._fetch is not None:
            if self._verbose:
                logger.info(f"Running operation {self._name} {when}.")
            self.trainer.sess.run(self._fetch)

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` runs anything."""
        if hook == "before_run":
            return self._runs_with_step and (self._trainer is None or self._fetch is not None)
        return self._runs_as_trigger if hook == "trigger" else super().implements(hook)


@check_arguments
class RunUpdateOps(RunOp):
    """Run the operations of a collection with every step, such as moving averages of batch normalization.

    Not needed if the train op depends on them already.

    Args:
        collection: the collection; `tf.GraphKeys.UPDATE_OPS` unless given.
    """

    def __init__(self, collection: str | None = None) -> None:
        key = collection or tf.GraphKeys.UPDATE_OPS

        def group_updates() -> tf.Operation | None:
            ops = tf.get_collection(key)
            if not ops:
                return None
            logger.info(f"{len(ops)} operation(s) of collection {key} run with every step.")
            return tf.group(*ops, name="update_ops")

        super().__init__(group_updates, run_before=False, run_as_trigger=False, run_step=True)


def _as_operation(item: Runnable) -> tf.Operation:
    """Return the operation itself, which has no value to fetch."""
    op = getattr(item, "op", item)
    if not isinstance(op, tf.Operation):
        raise CallbackError(mismatch("RunOp", "op", item, "an operation or a tensor"))
    return op


def copies_in_towers(trainer: Trainer) -> list[tuple[tf.Variable, tf.Variable]]:
    """Return pairs of a main tower's variable and its copy in a tower with own variables; often none."""
    contexts = [handle.context for handle in training_towers(trainer)]
    others = [other for other in contexts[1:] if other.has_own_variables]
    return [pair for other in others for pair in pair_variables(contexts[0].recorder, other.recorder)]
