"""Replicated towers, with master copies of their variables on parameter servers, where gradients are averaged.

A worker's towers compute with variables of their own. Their averaged gradients go to the servers, worker 0's optimizer
applies them to the master copies (shadows), and each worker copies these to its towers: variables cross the network
once a step and worker. Worker 0 has a copy of the optimizer's state, which is on the servers too, for checkpoints: it
is written to the servers when training begins, and read when an epoch is over.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import build_replicas, copy_to_replicas
from tpack.graph_builder.towers import DataParallelBuilder
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_queues import apply_once
from tpack.multi_worker.parameter_server import ServerPlacement, average_in_worker, will_be_global
from tpack.reduction.sums import on_device
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.grads import Gradient
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments

_KEY = "shadow_variables"
_PREFIX = "shadow/"
_HERE = "/device:CPU:0"
_ONLY_AT_ENDS = 1 << 62
"""More steps than anybody makes: a `SyncOp` runs after the last step of each epoch as well."""


@check_arguments
class ReplicatedParameterServerBuilder(DataParallelBuilder):
    """Give each tower of each worker its own variables, with master copies on parameter servers.

    Args:
        towers: the number of towers of each worker, or the numbers of their GPUs.
        placement: the servers of the shadows.
        stop_flag: the stop flag.
        tower_building: as for `DataParallelBuilder`.

    Attributes:
        push: writes the variables of this worker, with the state of its optimizer, to the shadows; None before `build`,
            and in workers that do not.
        shadows: the variables on the servers, for worker 0 to initialise.
        own_gradients: those of this worker, before they are sent.

    Raises:
        ConfigError: The towers cannot be understood.
        DeviceError: A GPU does not exist on this machine, which has GPUs.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        placement: ServerPlacement,
        *,
        stop_flag: StopFlag,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, tower_building=tower_building)
        self._placement = placement
        self._stop_flag = stop_flag
        self.push: tf.Operation | None = None
        self.shadows: list[tf.Variable] = []
        self.own_gradients: list[Gradient] = []

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers of this worker, the shadows, and its part of the common update.

        Returns:
            The train op, the towers, and ops that synchronise the towers of this worker and the copy of the optimizer's
            state.

        Shapes:
            K x N gradients are averaged to N in each of W workers, W x N to N on the servers, and N variables go back.

        Creates:
            What `SyncMultiGPUReplicatedBuilder` does; on the servers a shadow of each trained variable.

        Raises:
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: The gradients of the towers differ in kind, dtype or shape.

        Source:
            tensorpack's trainer of the same name, which sums the workers' gradients where it means to average them, and
            the benchmarks of TensorFlow, where it comes from.
        """
        towers = build_replicas(grad_fn, self.devices, tower_building=self._tower_building)
        optimizer = check_optimizer(optimizer_fn())
        replicas = [[variable for _, variable in pairs] for pairs in towers.outputs]
        state = _OptimizerState()
        with tf.container(self._placement.run):
            shadows = [self._shadow_of(variable) for variable in replicas[0]]
            pairs: GradsAndVars = [
                (grad, shadow) for (grad, _), shadow in zip(average_in_worker(towers.outputs), shadows, strict=True)
            ]
            self.own_gradients = [grad for grad, _ in pairs]
            with state.apart():
                train_op = apply_once(
                    pairs,
                    optimizer,
                    self._placement.member,
                    self._stop_flag,
                    after=lambda: _copy_back(shadows, replicas),
                )
        self.shadows = [*shadows, *(shadow for shadow, _ in state.pairs)]
        copying = copy_to_replicas(towers.contexts)
        sync_ops = [SyncOp(copying.op)]
        if self._placement.member.is_chief:
            kept = [*zip(shadows, replicas[0], strict=True), *state.pairs]
            self.push = _assign(kept, "push_to_shadows")
            sync_ops.append(
                SyncOp(_assign([(own, shadow) for shadow, own in state.pairs], "pull_state"), _ONLY_AT_ENDS)
            )
        return BuildResult(train_op, towers.contexts, copying.op, tuple(sync_ops), copying.copies)

    def _shadow_of(self, variable: tf.Variable) -> tf.Variable:
        size = variable.shape.num_elements()
        device = self._placement.take((size or 0) * variable.dtype.size)
        root = tf.VariableScope(reuse=tf.AUTO_REUSE, name="")
        with tf.variable_scope(root, auxiliary_name_scope=False), on_device(device):
            return tf.get_variable(
                f"{_PREFIX}{variable.op.name}",
                variable.shape,
                variable.dtype.base_dtype,
                tf.zeros_initializer(),
                trainable=False,
                collections=[_KEY],
                use_resource=True,
            )


class _OptimizerState:
    """State of an optimizer on the servers, each variable with a copy of this worker under its usual name.

    Attributes:
        pairs: shadows, and the copies.
    """

    def __init__(self) -> None:
        self.pairs: list[tuple[tf.Variable, tf.Variable]] = []

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Treat the global variables of this block as an optimizer's."""
        with tf.variable_creator_scope(self._create):
            yield

    def _create(self, creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        if not will_be_global(kwargs):
            return creator(**kwargs)
        if "use_resource" in kwargs:
            kwargs["use_resource"] = True
        name = (kwargs.get("name") or "Variable").removeprefix(_PREFIX)
        shadow = creator(**{**kwargs, "name": f"{_PREFIX}{name}", "collections": [_KEY], "trainable": False})
        with tf.get_default_graph().colocate_with(None, ignore_existing=True), tf.device(_HERE), tf.container(""):
            self.pairs.append((shadow, creator(**{**kwargs, "name": name})))
        return shadow


def _copy_back(shadows: Sequence[tf.Variable], replicas: Sequence[Sequence[tf.Variable]]) -> list[tf.Operation]:
    """Copy the shadows, each of which is read once, to the variables of all towers of a worker."""
    assignments = []
    with tf.name_scope("copy_back"):
        for shadow, *copies in zip(shadows, *replicas, strict=True):
            with on_device(shadow.device):
                read = shadow.read_value()
            with on_device(_HERE):
                value = tf.identity(read)
            for copy in copies:
                with on_device(copy.device):
                    assignments.append(copy.assign(value, read_value=False))
    return assignments


def _assign(pairs: Sequence[tuple[tf.Variable, tf.Variable]], name: str) -> tf.Operation:
    assignments = []
    with tf.name_scope(name):
        for target, source in pairs:
            with on_device(source.device):
                value = source.read_value()
            with on_device(target.device):
                assignments.append(target.assign(value, read_value=False))
    return tf.group(*assignments, name=name)
