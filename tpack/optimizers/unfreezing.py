"""`Unfreeze`: parts of a model that are trained from some epoch on, and cost no gradient before."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat.operations import run_after, set_control_inputs
from tpack.errors import ConfigError, GraphBuildError
from tpack.optimizers.hyper import LeftOut, Patterns
from tpack.tfutils.dependency import needed_by
from tpack.tfutils.gradproc import Grads
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.optimizer_clone import clone_optimizer
from tpack.tfutils.predicated import Gate
from tpack.tower.context import get_current_tower_context
from tpack.tower.grads import Gradient, Pairs, Step, is_sparse
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, owner_name

__all__ = ["Unfreeze"]


@check_arguments
class Unfreeze(ProxyOptimizer):
    """Train some variables from the beginning and others from later epochs on, by their names.

    Operations of the backward pass that serve frozen variables alone do not run, and neither do those of the optimizer:
    frozen variables do not decay, and their state begins when they are trained, in an optimizer of their own with the
    same settings. Gradients of zeros are reduced in place of theirs. Variables that no pattern matches stay as they
    are. Statistics of normalisation are collected in frozen layers too.

    A trainer sets the epoch, in a resumed run too; who calls the optimizer otherwise registers `callbacks`.

    Args:
        opt: the optimizer inside.
        epochs: {number of finished epochs: regular expressions}: variables whose name contains a match are trained from
            there on. One of them is 0.

    Creates:
        ``unfreeze_epoch``, an integer, in LOCAL_VARIABLES.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, no variable is trained from the
            beginning.
        ConfigError: There is no 0 among the epochs, or something else, or a pattern is invalid.

    Example:
        ``Unfreeze(AdamW(1e-3), {0: "^head/", 3: ["^group3/", "bn"], 5: ".*"})``

    Source:
        Howard and Ruder, Universal language model fine-tuning for text classification, 2018, section 3.3.
    """

    def __init__(self, opt: tf.train.Optimizer, epochs: Mapping[int, Patterns]) -> None:
        super().__init__(opt, "Unfreeze")
        self._epochs = sorted(check_count(self, "an epoch of epochs", epoch, 0) for epoch in epochs)
        if not self._epochs or self._epochs[0] != 0:
            raise ConfigError(f"{owner_name(self)} got epochs={self._epochs}: expected 0 among them; use {{0: 'head'}}")
        self._patterns = [LeftOut(self, "epochs", epochs[epoch], "training") for epoch in self._epochs]
        # Each stage has counters of its own, such as Adam's for its first steps.
        self._optimizers = [opt, *(clone_optimizer(opt) for _ in self._epochs[1:])]
        self._epoch = tf.get_variable(
            "unfreeze_epoch",
            [],
            tf.int32,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )

    def callbacks(self) -> list[Callback]:
        """Return the callback that sets the epoch, for a trainer."""
        return [_EpochOfUnfreeze(self._epoch, self._epochs)]

    def compute_gradients(
        self, loss: Any, var_list: Sequence[tf.Variable] | None = None, *args: Any, **kwargs: Any
    ) -> Grads:
        """Return the gradients of variables that are trained at some time; zeros of those that are not yet.

        Raises:
            GraphBuildError: No variable is trained from the beginning.
        """
        variables = tf.trainable_variables() if var_list is None else list(var_list)
        known = [variable for variable in variables if self._stage(variable) is not None]
        if not any(self._stage(variable) == 0 for variable in known):
            names = ", ".join(str(variable.name) for variable in variables[:4])
            raise GraphBuildError(f"Unfreeze got epochs={self._epochs}: expected a match of the first in {names}")
        loss = loss() if callable(loss) else loss
        graph = tf.get_default_graph()
        num_before = len(graph.get_operations())
        grads = super().compute_gradients(loss, known, *args, **kwargs)
        made = set(graph.get_operations()[num_before:])
        self._tell(variables)
        done: set[tf.Operation] = set()
        for stage in range(len(self._epochs)):
            own = [pair for pair in grads if pair[0] is not None and self._stage(pair[1]) == stage]
            needed = _computing([part for gradient, _ in own for part in _parts(gradient)], made) - done
            done |= needed
            _leave_groups(needed, done)
            if stage and own:
                with tf.name_scope("Unfreeze"):
                    gate = self._gate(stage)
                    _let_wait(needed, gate)
                    gated = {id(variable): _or_zeros(gate, gradient, variable) for gradient, variable in own}
                grads = [(gated.get(id(variable), gradient), variable) for gradient, variable in grads]
        return grads

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation that applies gradients to the variables that are trained in this epoch."""
        pairs, updates = list(grads_and_vars), []
        for stage, optimizer in enumerate(self._optimizers):
            own = [pair for pair in pairs if self._stage(pair[1]) == stage and pair[0] is not None]
            if own and stage:
                gate = self._gate(stage)
                with gate.behind():
                    update = optimizer.apply_gradients(own)
                updates.append(gate.wait_for([update]).op)
            elif own:
                updates.append(optimizer.apply_gradients(own))
        with tf.control_dependencies(updates):
            if global_step is None:
                return tf.no_op(name or "Unfreeze")
            return global_step.assign_add(1, read_value=False, name=name)

    def _stage(self, variable: tf.Variable | tf.Tensor) -> int | None:
        """Return the number of the period from which on a variable is trained; None for never."""
        if isinstance(variable, tf.Tensor):
            return 0
        return next((stage for stage, patterns in enumerate(self._patterns) if patterns.has(variable)), None)

    def _gate(self, stage: int) -> Gate:
        with tf.device(self._epoch.device):
            return Gate(tf.greater_equal(self._epoch.read_value(), self._epochs[stage]))

    def _tell(self, variables: Iterable[tf.Variable]) -> None:
        tower = get_current_tower_context()
        if tower is not None and not tower.is_main_tower:
            return
        stages = [self._stage(variable) for variable in variables]
        parts = [f"{stages.count(k)} from epoch {epoch + 1} on" for k, epoch in enumerate(self._epochs)]
        logger.info(f"Of {len(stages)} variables are trained: {', '.join(parts)}, {stages.count(None)} never.")

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """Return a slot of the optimizer that trains a variable."""
        return self._optimizers[self._stage(var) or 0].get_slot(var, name)

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the inner optimizers."""
        return [variable for optimizer in self._optimizers for variable in optimizer.variables()]


class _EpochOfUnfreeze(Callback):
    """Sets the number of finished epochs."""

    _chief_only = False

    def __init__(self, epoch: tf.Variable, epochs: Sequence[int]) -> None:
        self._epoch, self._epochs = epoch, epochs
        self._assign: tf.Operation
        self._value: tf.Tensor

    def _setup_graph(self) -> None:
        self._value = tf.placeholder(tf.int32, [], name="finished_epochs")
        self._assign = self._epoch.assign(self._value, read_value=False)

    def _before_epoch(self) -> None:
        finished = self.epoch_num - 1
        self.trainer.sess.run(self._assign, {self._value: finished})
        if finished in self._epochs[1:]:
            logger.info(f"From epoch {self.epoch_num} on more variables are trained.")


def _parts(gradient: Gradient) -> list[tf.Tensor]:
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _computing(tensors: Iterable[tf.Tensor], made: Collection[tf.Operation]) -> set[tf.Operation]:
    """Return the operations of a backward pass that compute tensors, without groups that only wait for others."""
    waiting, found = [tensor.op for tensor in tensors], set[tf.Operation]()
    while waiting:
        op = waiting.pop()
        if op in made and op not in found:
            found.add(op)
            waiting.extend(other for other in needed_by(op) if other.type != "NoOp")
    return found


def _leave_groups(ops: Collection[tf.Operation], known: Collection[tf.Operation]) -> None:
    """Let operations wait no longer for all gradients of an operation, of which some may not be computed."""
    for op in ops:
        groups = [other for other in op.control_inputs if other.type == "NoOp"]
        if groups:
            others = [other for group in groups for other in group.control_inputs if other in known]
            set_control_inputs(op, [*(each for each in op.control_inputs if each not in groups), *others])


def _let_wait(ops: Collection[tf.Operation], gate: Gate) -> None:
    """Put operations behind a gate: those that need none of the others, so that no other one runs either."""
    with gate.behind():
        opened = tf.no_op("opened")
    for op in ops:
        if not any(tensor.op in ops for tensor in op.inputs):
            run_after(op, [opened])


def _or_zeros(gate: Gate, gradient: Gradient, variable: tf.Variable) -> Gradient:
    """Return a gradient, or one of zeros, or of no rows, while a gate is closed."""
    if not is_sparse(gradient):
        with tf.device(gradient.device):
            return gate.either(gradient, tf.zeros(variable.shape, gradient.dtype))
    values, rows = gradient.values, gradient.indices
    with tf.device(values.device):
        values = gate.either(values, tf.zeros([0, *variable.shape.as_list()[1:]], values.dtype))
        rows = gate.either(rows, tf.zeros([0], rows.dtype))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
