"""K towers that train each by itself, and become their mean every so many steps: local SGD and its family.

A step applies the gradients of each tower to its own weights. A `SyncOp` averages the weights, hands the mean to an
outer optimizer, if there is one, and sets all towers to the result. So nothing travels in the steps between.

The outer optimizer works on the anchor, the weights that all towers had after the last time. Its gradient is the anchor
minus the mean, the way that towers have gone with the sign of a gradient. Anchors are local variables: towers are
synchronised before a checkpoint is saved, and then the weights are the anchors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.accumulation import check_steps
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import apply_in_replicas, build_replicas, copy_to_replicas
from tpack.graph_builder.towers import DataParallelBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import split_grad_list, transposed
from tpack.reduction.names import choose_by_heuristic
from tpack.reduction.sums import on_device_of, wider
from tpack.schedules import Schedule
from tpack.tfutils.optimizer_clone import check_optimizer, clone_optimizer
from tpack.tower.context import TowerContext
from tpack.tower.grads import Gradient, ReduceOp
from tpack.tower.ownership import pair_variables
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_choice, mismatch

_loss_scale = LazyModule("tpack.graph_builder.loss_scale")

_INNER_STATES = ("keep", "average", "reset")
_SCOPE = "outer"


@check_arguments
@dataclass(frozen=True)
class LocalSteps:
    """Options of steps that each tower makes by itself.

    Args:
        sync_every_steps: the number of steps of an epoch after which weights are averaged; a `Schedule` gives that of
            each epoch. Also after the last step of an epoch, before a checkpoint is saved and where training is
            stopped.
        outer_optimizer: updates the weights by the way that their mean has gone; None sets them to the mean. Its slots
            are saved.
        inner_state: what an average does to the state of the towers' own optimizers. ``"keep"`` leaves it; at the
            beginning of an epoch all have that of the first tower, which is saved. ``"average"`` averages it with the
            weights, and ``"reset"`` sets it to its first values.

    Raises:
        ConfigError: A number of steps is less than 1, or ``inner_state`` is something else.

    Example:
        ``LocalSteps(500, tf.train.MomentumOptimizer(0.7, 0.9, use_nesterov=True))`` for DiLoCo
    """

    sync_every_steps: int | Schedule
    outer_optimizer: tf.train.Optimizer | None = None
    inner_state: str = "keep"

    def __post_init__(self) -> None:
        check_steps(self, "sync_every_steps", self.sync_every_steps)
        check_choice(self, "inner_state", self.inner_state, _INNER_STATES)
        if self.outer_optimizer is not None:
            check_optimizer(self.outer_optimizer)


def local_steps_of(
    owner: object,
    sync_every_steps: int | Schedule | None,
    outer_optimizer: tf.train.Optimizer | None,
    inner_state: str,
    **others: tuple[object, object],
) -> LocalSteps:
    """Return the options of a trainer, if they can be together with its others.

    Args:
        owner: the trainer.
        sync_every_steps: see `LocalSteps`.
        outer_optimizer: see `LocalSteps`.
        inner_state: see `LocalSteps`.
        others: (value, the only one that is possible) of other arguments.

    Raises:
        ConfigError: They cannot be together.
    """
    if sync_every_steps is None:
        name, value = ("inner_state", inner_state) if outer_optimizer is None else ("outer_optimizer", outer_optimizer)
        raise ConfigError(mismatch(owner, name, value, "it together with sync_every_steps", "sync_every_steps=8"))
    for name, (value, possible) in others.items():
        if value != possible:
            expected = f"{possible} with sync_every_steps={sync_every_steps}"
            raise ConfigError(mismatch(owner, name, value, expected, "one of the two"))
    check_steps(owner, "sync_every_steps", sync_every_steps)
    check_choice(owner, "inner_state", inner_state, _INNER_STATES)
    return LocalSteps(sync_every_steps, outer_optimizer, inner_state)


@check_arguments
class LocalStepsBuilder(DataParallelBuilder):
    """Builder of towers that apply their own gradients, and whose weights are averaged every so many steps.

    Args:
        towers: the number of towers, or the numbers of their GPUs.
        steps: after how many steps, and how.
        reducer: reduces weights over the towers; None chooses by the kinds of the devices.
        tower_building: see `DataParallelBuilder`.

    Attributes:
        own_gradients: those of all towers.
        own_state: the names of the variables that towers have each for itself also after an average.

    Raises:
        ConfigError: An argument is invalid.
        DeviceError: The machine has GPUs, but not one of these.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        steps: LocalSteps,
        reducer: Reducer | None = None,
        *,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, tower_building=tower_building)
        self._steps = steps
        self._reducer = choose_by_heuristic(self.devices).reducer if reducer is None else reducer
        self.own_gradients: list[Gradient] = []
        self.own_state: frozenset[str] = frozenset()

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, one update for each, and the average of their weights.

        Shapes:
            K x N gradients, all applied; K x N weights are averaged to N and set to the result.

        Creates:
            What `SyncMultiGPUReplicatedBuilder` does; for an outer optimizer a local variable of the shape of each
            trained one, and slots beside it.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ConfigError: The cost is scaled: each tower would skip other steps.

        Source:
            Lin et al., Don't Use Large Mini-Batches, Use Local SGD, 2018; Wang et al., SlowMo, 2019; Douillard et al.,
            DiLoCo, 2023.
        """
        towers = build_replicas(grad_fn, self.devices, tower_building=self._tower_building, copies_are_set=True)
        optimizer = check_optimizer(optimizer_fn())
        if isinstance(optimizer, _loss_scale.LossScaleOptimizer):
            raise ConfigError(
                mismatch(self, "precision", "float16", "one without a scaled cost with sync_every_steps", '"bfloat16"')
            )
        grads, weights = split_grad_list(towers.outputs)
        self.own_gradients = [grad for row in grads for grad in row]
        without_state = len(towers.contexts[0].recorder.variables)
        train_op = apply_in_replicas(
            towers.contexts, towers.outputs, optimizer, tower_building=self._tower_building, copies_are_set=True
        )
        state = _state_of_towers(towers.contexts, without_state)
        self.own_state = frozenset(column[0].op.name for column in state if self._steps.inner_state == "keep")
        outer = None
        with tf.name_scope("average_weights"):
            if self._steps.outer_optimizer is not None:
                outer = _Outer(clone_optimizer(self._steps.outer_optimizer), weights[0])
            averaging = SyncOp(self._average(transposed(weights), state, outer), self._steps.sync_every_steps)
        copying = copy_to_replicas(towers.contexts)
        copies = copying.op if outer is None else tf.group(copying.op, outer.begin(), name="begin_local_steps")
        return BuildResult(train_op, towers.contexts, copies, (averaging, SyncOp(copies)), copying.copies)

    def _average(
        self, weights: list[list[tf.Variable]], state: list[list[tf.Variable]], outer: "_Outer | None"
    ) -> tf.Operation:
        """Return the operation that sets N columns of K weights to their means, or to what ``outer`` makes of them."""
        averaged = list(weights)
        if self._steps.inner_state == "average":
            averaged += [column for column in state if column[0].dtype.is_floating]
        values = self._mean([column[0].op.name for column in averaged], averaged)
        ops: list[tf.Operation] = []
        if outer is not None:
            values[: len(weights)] = outer.updated(values[: len(weights)])
            ops += outer.keep(values)
        ops += [_assign(v, value) for column, value in zip(averaged, values, strict=True) for v in column]
        ops += [_reset(column) for column in state if self._steps.inner_state == "reset"]
        return tf.group(*ops, name="average_weights")

    def _mean(self, names: Sequence[str], columns: Sequence[Sequence[tf.Variable]]) -> list[tf.Tensor]:
        """Return the mean of each of N columns of K variables; that of equal ones is their value."""
        rows = [[_wide(variable) for variable in row] for row in transposed(columns)]
        means = []
        for mean, (main, *_) in zip(self._reducer.reduce(rows, ReduceOp.MEAN)[0], columns, strict=True):
            with on_device_of(main):
                means.append(tf.cast(mean, main.dtype.base_dtype))
        return self._between_workers(names, means)

    def _between_workers(self, names: Sequence[str], means: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the means over all workers of those of this one."""
        return means


class _Outer:
    """An optimizer of the weights that all towers had after they were averaged.

    Args:
        optimizer: the optimizer.
        weights: N variables of the main tower.

    Creates:
        N local variables, and the slots of the optimizer.
    """

    def __init__(self, optimizer: tf.train.Optimizer, weights: Sequence[tf.Variable]) -> None:
        self._optimizer = optimizer
        self._weights = weights
        self._anchors = []
        for weight in weights:
            root = tf.VariableScope(reuse=False, name="")
            with on_device_of(weight), tf.variable_scope(root, auxiliary_name_scope=False):
                anchor = tf.get_variable(
                    f"{_SCOPE}/{weight.op.name}",
                    weight.shape,
                    weight.dtype.base_dtype,
                    tf.zeros_initializer(),
                    trainable=False,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    use_resource=True,
                )
            self._anchors.append(anchor)

    def updated(self, means: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Update the anchors by the way to the means, and return them.

        What the difference lost in rounding is added, so that gradient descent by 1 ends at the mean itself.
        """
        pairs, lost = [], []
        for anchor, mean in zip(self._anchors, means, strict=True):
            with on_device_of(anchor):
                before = anchor.read_value()
                pairs.append((before - mean, anchor))
                lost.append(mean - (before - pairs[-1][0]))
        with tf.name_scope(None), tf.name_scope(f"{_SCOPE}/"):
            update = self._optimizer.apply_gradients(pairs, name="apply_gradients")
        after = []
        for anchor, rest in zip(self._anchors, lost, strict=True):
            with on_device_of(anchor), tf.control_dependencies([update]):
                after.append(anchor.read_value() + rest)
        return after

    def keep(self, values: Sequence[Any]) -> list[tf.Operation]:
        """Return the operations that set the anchors to the first of some values."""
        return [_assign(anchor, value) for anchor, value in zip(self._anchors, values, strict=False)]

    def begin(self) -> tf.Operation:
        """Return the operation that sets the anchors to the weights."""
        ops = []
        for anchor, weight in zip(self._anchors, self._weights, strict=True):
            with on_device_of(weight):
                ops.append(_assign(anchor, weight.read_value()))
        return tf.group(*ops)


def _state_of_towers(contexts: Sequence[TowerContext], since: int) -> list[list[tf.Variable]]:
    """Return columns of K variables: those that the main tower has from number ``since`` on, and their copies."""
    main, *others = (context.recorder for context in contexts)
    columns = [[variable] for variable in list(main.variables)[since:]]
    for other in others:
        copies = {id(own): copy for own, copy in pair_variables(main, other)}
        for column in columns:
            column.append(copies[id(column[0])])
    return columns


def _assign(variable: tf.Variable, value: tf.Tensor) -> tf.Operation:
    with on_device_of(variable):
        return variable.assign(value, read_value=False)


def _wide(variable: tf.Variable) -> tf.Tensor:
    with on_device_of(variable):
        return wider(variable.read_value())


def _reset(column: Sequence[tf.Variable]) -> tf.Operation:
    """Return the operation that gives copies of a variable its first value."""
    main, *copies = column
    with on_device_of(main), tf.control_dependencies([main.initializer]):
        value = main.read_value()
    return tf.group(main.initializer, *(_assign(copy, value) for copy in copies))
