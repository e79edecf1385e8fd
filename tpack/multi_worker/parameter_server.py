"""Placement of variables on parameter servers, and the builder of workers that share them.

Each worker builds a graph of its own, with the shared variables on tasks of the job ``ps`` and everything else in the
worker's own task. Graphs of several workers refer to the same variable if name, container and task are the same; so
placement is the same in each, by a rule that depends on the variables alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.compat.operations import run_after
from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn
from tpack.graph_builder.towers import DataParallelBuilder, align_shared_gradients, build_towers
from tpack.graph_copy import op_kinds
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_queues import apply_once
from tpack.multi_worker.staleness import Progress
from tpack.reduction.gradients import check_columns
from tpack.reduction.sums import on_device, sum_column
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.devices import LeastLoaded
from tpack.tower.grads import Gradient, ReduceOp
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_choice

_HERE = "/device:CPU:0"


class ServerPlacement:
    """Placement of the variables of one training on parameter servers; the same in each worker.

    Args:
        member: this process.
        run: the name of the training, and of its container, different from others on the same servers.

    Attributes:
        placed: the variables that were placed by their order, with their devices.

    Raises:
        ConfigError: The cluster has no parameter server.
    """

    def __init__(self, member: ClusterMember, run: str) -> None:
        addresses = member.cluster.get("ps", ())
        if not addresses:
            raise ConfigError(f"ServerPlacement got no parameter server: expected one; use launch --ps 1 ({member})")
        self.member = member
        self.run = run
        self.load = LeastLoaded([f"/job:ps/task:{index}/device:CPU:0" for index in range(len(addresses))])
        self.placed: list[str] = []
        self._is_open = False
        self._is_settled = False

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Place the variables that are created in this block; a nested block changes nothing."""
        if self._is_open:
            yield
            return
        self._is_open = True
        try:
            with tf.container(self.run), tf.variable_creator_scope(self._create):
                yield
        finally:
            self._is_open = False

    def settle(self) -> None:
        """Place later variables by their names alone: beside the model, workers may have different ones."""
        self._is_settled = True

    def take(self, size_bytes: int) -> str:
        """Return the server with the fewest bytes, and add some to it."""
        return self.load.take(size_bytes)

    def is_shared(self, variable: tf.Variable) -> bool:
        """Tell whether a variable is on a server."""
        return tf.DeviceSpec.from_string(variable.device).job == "ps"

    def _choose(self, name: str | None) -> str:
        if not self._is_settled:
            return self.load.take(0)
        return self.load.devices[crc32((name or "").encode()) % len(self.load.devices)]

    def _create(self, creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        if not will_be_global(kwargs):
            return creator(**kwargs)
        if "use_resource" in kwargs:
            # Only resource variables can be told apart by a container, and read in part.
            kwargs["use_resource"] = True
        with tf.device(self._choose(kwargs.get("name"))):
            variable = creator(**kwargs)
        # Its server may be another one: an optimizer's variable is beside the trained one.
        device = tf.DeviceSpec.from_string(variable.device).to_string()
        if not self._is_settled:
            self.placed.append(f"{variable.op.name} on {device}")
        size = variable.shape.num_elements()
        if device in self.load.devices and size is not None:
            self.load.sizes[self.load.devices.index(device)] += size * variable.dtype.size
        return variable


@check_arguments
@dataclass(frozen=True)
class SharingOptions:
    """Options of shared variables: caching and partitioning.

    Args:
        caching_device: the device of a worker's copies of variables in a step: ``"cpu"``, ``"gpu"``, or None to read a
            variable at each use.
        partitioner: cuts large variables into parts on several servers, as TensorFlow's
            ``min_max_variable_partitioner`` does; of ``tf.get_variable`` only.

    Raises:
        ConfigError: The device is unknown.
    """

    caching_device: str | None = "cpu"
    partitioner: Callable[..., Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.caching_device is not None:
            check_choice(self, "caching_device", self.caching_device, ("cpu", "gpu"))


@check_arguments
class ParameterServerBuilder(DataParallelBuilder):
    """Let workers share variables on parameter servers, balanced by bytes.

    The K towers of a worker average their gradients first. Then the worker applies them by itself; or, where training
    is synchronous, worker 0 does so once for all workers. An embedding's gradient is sent as the used rows.

    Args:
        towers: the number of towers of each worker, or the numbers of their GPUs.
        placement: that of the variables.
        stop_flag: the stop flag.
        options: caching and partitioning.
        progress: step counters of asynchronous workers; None makes training synchronous.
        tower_building: as for `DataParallelBuilder`.

    Attributes:
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
        options: SharingOptions | None = None,
        progress: Progress | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, tower_building=tower_building)
        self._placement = placement
        self._stop_flag = stop_flag
        self._options = options or SharingOptions()
        self._progress = progress
        self._applied: tf.Operation | None = None
        self._before_release: tf.Operation
        self.own_gradients: list[Gradient] = []

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers of this worker and its part of the common update.

        Returns:
            The train op, which counts the global step where it is synchronous, and the K towers.

        Shapes:
            K x N gradients are averaged to N in each of W workers; synchronously, W x N to N on the servers.

        Creates:
            The variables on parameter servers, those of the optimizer beside theirs.

        Raises:
            TowerMismatchError: The towers returned gradients of different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: A variable has no gradient in some tower.

        Source:
            tensorpack's trainer of the same name, whose workers are asynchronous; the token queues of
            ``tf.train.SyncReplicasOptimizer``.
        """
        with self._placement.scope():
            # An optimizer's variables are not cached: it reads what it has just written.
            with self._reading():
                towers = build_towers(
                    grad_fn, self.devices, [False] * len(self.devices), tower_building=self._tower_building
                )
            self._placement.settle()
            pairs = average_in_worker(align_shared_gradients(towers.outputs))
            self.own_gradients = [gradient for gradient, _ in pairs]
            optimizer = check_optimizer(optimizer_fn())
            if self._progress is None:
                train_op = apply_once(
                    pairs, optimizer, self._placement.member, self._stop_flag, then=self._between_update_and_release
                )
            else:
                update = optimizer.apply_gradients(pairs, name="apply_gradients")
                train_op = self._progress.build(update, self._stop_flag)
        return BuildResult(train_op, towers.contexts)

    def order_updates(self, updates: tf.Operation) -> None:
        """Let worker 0's updates of further variables run after the gradients' one, and before the next step begins.

        Other workers read moving averages and states of random numbers in the same step: without an order some would
        get values from after the update. Asynchronous training has none.

        Args:
            updates: an operation that runs in each step of worker 0. What the gradients depend on stays where it is.
        """
        if self._applied is None:
            return
        assignments = (op for op in ancestors([updates]) if op.type in op_kinds.ASSIGNMENTS)
        for op in set(assignments) - ancestors([self._applied]):
            run_after(op, [self._applied])
        run_after(self._before_release, [updates])

    def _between_update_and_release(self) -> Sequence[tf.Operation]:
        """Count the step, which all workers begin together, and keep the place of further updates; in worker 0."""
        self._applied, self._before_release = tf.no_op("applied"), tf.no_op("before_release")
        return [get_global_step_var().assign_add(1, read_value=False), self._before_release]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Set caching and partitioning in the variable scope of the towers."""
        with ExitStack() as scopes:
            arguments: dict[str, Any] = {}
            if self._options.caching_device is not None:
                arguments["caching_device"] = self._caching_device()
            if self._options.partitioner is not None:
                arguments["partitioner"] = self._options.partitioner
            if arguments:
                around = tf.get_variable_scope()
                scopes.enter_context(tf.variable_scope(around, auxiliary_name_scope=False, **arguments))
            yield

    def _caching_device(self) -> str | Callable[[tf.Operation], str]:
        if self._options.caching_device == "cpu":
            return _HERE
        load = LeastLoaded(self.devices)

        def lightest(operation: tf.Operation) -> str:
            size = operation.outputs[0].shape.num_elements() if operation.outputs else None
            return load.take((size or 0) * operation.outputs[0].dtype.size if operation.outputs else 0)

        return lightest


def will_be_global(kwargs: dict[str, Any]) -> bool:
    """Tell whether a creator's arguments put the variable into GLOBAL_VARIABLES, TensorFlow's default."""
    collections = kwargs.get("collections")
    return collections is None or tf.GraphKeys.GLOBAL_VARIABLES in collections


def average_in_worker(tower_grads: Sequence[GradsAndVars]) -> GradsAndVars:
    """Average the gradients of a worker's towers on its CPU, of variables that the towers share.

    Shapes:
        K x N x 2; returned: N x 2.

    Raises:
        ReductionError: The gradients of the towers differ in kind, dtype or shape.
    """
    columns = check_columns([[grad for grad, _ in tower] for tower in tower_grads], ReduceOp.MEAN)
    variables = [variable for _, variable in tower_grads[0]]
    if len(tower_grads) == 1:
        return list(tower_grads[0])
    with tf.name_scope("average_in_worker"), on_device(_HERE):
        return [
            (sum_column(column, ReduceOp.MEAN), variable) for column, variable in zip(columns, variables, strict=True)
        ]
