"""Trainers of several workers and parameter servers: tensorpack's two, on ``tpack launch --ps`` and other launchers.

Each process runs the same script. In a parameter server the trainer trains nothing: launching the training serves
variables instead, until the workers have ended.
"""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.run_op import RunUpdateOps
from tpack.errors import ClusterError, ConfigError
from tpack.graph_builder.base import GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy, as_precision_policy
from tpack.graph_copy.towers import TowerBuilding
from tpack.input_source.base import InputSource
from tpack.multi_worker.callbacks import BoundedStaleness, EpochBarrier, PushBeforeEpoch, StepHeartbeat
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.multi_worker.parameter_server import ParameterServerBuilder, ServerPlacement, SharingOptions
from tpack.multi_worker.ps_replicated import ReplicatedParameterServerBuilder
from tpack.multi_worker.servers import WorkerSessionCreator, start_server, use_server
from tpack.multi_worker.staleness import Progress
from tpack.multi_worker.trainer import MultiWorkerTrainer, WaitLimits
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import NewSessionCreator, ServerSessionCreator, SessionCreator
from tpack.tfutils.sessinit import SessionInit
from tpack.train.loop import StepCounter
from tpack.train.single_cost import SingleCostTrainer
from tpack.utils import logger
from tpack.utils.addresses import parse_address
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments, check_count

_POLL_SECS = 0.05


class DistributedTrainer(MultiWorkerTrainer):
    """Base of trainers whose cluster has parameter servers.

    Args:
        make_builder: makes the builder of a worker.
        server: the TensorFlow server of this process, if the script has started one; None starts one.
        cluster: the place of this process, unless it is the server's; None calls `resolve_cluster`.
        waits: the timeouts.
        precision: ``"float32"``, ``"bfloat16"`` or a `PrecisionPolicy` that does not scale the cost.
        compile: see `SingleCostTrainer`; operations on servers are not compiled.

    Attributes:
        placement: that of the shared variables; in a worker.

    Raises:
        ConfigError: The cluster has no parameter server, or the cost is to be scaled.
        ClusterError: The workers do not find each other.
    """

    def __init__(
        self,
        make_builder: Callable[[WorkerGroup], GraphBuilder],
        server: tf.train.Server | None = None,
        *,
        cluster: ClusterMember | ClusterTask | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        waits = waits or WaitLimits()
        if as_precision_policy(precision).loss_scaling is not None:
            raise ConfigError(
                f"{type(self).__name__} got precision={precision!r}: expected a policy that does not scale the cost"
            )
        member = _member(server, cluster, waits)
        if not member.cluster.get("ps"):
            raise ConfigError(
                f"{type(self).__name__} got a cluster without parameter servers: expected one; use tpack launch --ps 1 "
                f"({member})"
            )
        self.server = server
        if member.job == "ps":
            self.member, self._waits, self.is_chief = member, waits, False
            SingleCostTrainer.__init__(self, precision=precision, compile=compile)
            return

        def make(group: WorkerGroup) -> GraphBuilder:
            self.placement = ServerPlacement(member, group.run)
            return make_builder(group)

        super().__init__(make, member, waits=waits, precision=precision, compile=compile)
        self._waits = waits

    @property
    def serves(self) -> bool:
        """Whether this process is a parameter server, which trains nothing."""
        return self.member.job == "ps"

    @property
    def is_alone(self) -> bool:
        """False: a single worker has its variables in another process too."""
        return False

    def join(self) -> None:
        """Serve until the workers have ended.

        Raises:
            ConfigError: This process is a worker.
            PeerLostError: A worker was lost, or another parameter server.
            ClusterError: The workers are missing.
        """
        if not self.serves:
            raise ConfigError(f"{type(self).__name__}.join got a worker: expected a parameter server ({self.member})")
        if self.server is None:
            start_server(self.member)
        logger.info(f"Serving as parameter server {self.member.index} at {self.member.address}.")
        with connect_peers(self.member, **vars(self._waits)) as peers:
            peers.serve_until_end()
        logger.info("The workers have ended: this parameter server does too.")

    def setup_graph(
        self,
        input_signature: Sequence[tf.TensorSpec | tf.Tensor],
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: OptimizerFn,
    ) -> None:
        """Do as `MultiWorkerTrainer.setup_graph`, with shared variables on servers.

        Raises:
            ConfigError: This process is a parameter server; or as `MultiWorkerTrainer.setup_graph`, as for the rest.
            ClusterError: Another worker has other variables or settings.
            GraphBuildError: The model cannot be trained.
            TowerMismatchError: The towers differ.
        """
        if self.serves:
            raise ConfigError(f"{type(self).__name__} got a parameter server: expected a worker; use join()")
        with self._scope():
            super().setup_graph(input_signature, input, get_cost_fn, get_opt_fn)

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Do as `MultiWorkerTrainer.setup_callbacks`, with shared variables on servers.

        Raises:
            ConfigError: Several steps are to be one call.
        """
        if self.steps_per_call != 1:
            raise ConfigError(f"{type(self).__name__} got steps_per_call={self.steps_per_call}: expected 1")
        with self._scope():
            super().setup_callbacks(callbacks, monitors)

    def _scope(self) -> ExitStack:
        """Return the block in which the graph is built."""
        return ExitStack()

    def _facts(self) -> dict[str, Any]:
        facts = {"parameter servers": len(self.member.cluster["ps"]), "the order of placement": self.placement.placed}
        return {**super()._facts(), **facts}

    def _on_server(self, session_creator: SessionCreator) -> WorkerSessionCreator:
        if isinstance(session_creator, ServerSessionCreator):
            # It polls variables to wait for worker 0, which the peers do here.
            session_creator = NewSessionCreator()
        elif isinstance(session_creator, WorkerSessionCreator):
            # It does not wait for parameter servers.
            session_creator = NewSessionCreator(config=session_creator.config, grappler=session_creator.grappler)
        if self.server is not None:
            use_server(self.member, self.server)
        return super()._on_server(session_creator)

    def _wait_for_servers(self) -> None:
        """Wait until all servers are reachable, since a session waits for them without a limit."""
        wait_for_parameter_servers(self.member, self._waits.timeout_secs)
        super()._wait_for_servers()

    def _initialize_session(self, session_init: SessionInit, *, is_new: bool) -> None:
        if self.is_chief:
            self.sess.run([variable.initializer for variable in self._only_on_servers()])
            super()._initialize_session(session_init, is_new=is_new)
            self.peers.barrier("the first values on parameter servers")
        else:
            # Variables on the servers have their values from worker 0.
            self._set_by_init_ops.extend(v for v in tf.global_variables() if self.placement.is_shared(v))
            self.peers.barrier("the first values on parameter servers")
            super()._initialize_session(session_init, is_new=is_new)

    def _only_on_servers(self) -> Sequence[tf.Variable]:
        """Return variables on servers that worker 0 initialises besides the global ones."""
        return ()


@check_arguments
class DistributedTrainerParameterServer(DistributedTrainer):
    """Train K towers in each of W workers, which share variables on parameter servers.

    Asynchronously, each worker averages its towers' gradients and applies them by itself, so a gradient may be computed
    from older values than those that it changes, by at most `max_staleness` steps; two runs differ. Synchronously,
    worker 0 applies the average of all workers' gradients, and repeated runs are equal. In both, a step is one of every
    worker and is counted once, and workers wait for each other after an epoch.

    Args:
        gpus: the number of towers of each worker, or the numbers of their GPUs.
        server: the TensorFlow server of this process, if the script has started one.
        caching_device: the device of a worker's copies of variables in a step: ``"cpu"``, ``"gpu"``, or None to read
            them at each use.
        synchronous: average the gradients of all workers.
        max_staleness: the number of steps that an asynchronous worker may be ahead of the slowest; None for any.
        partitioner: cuts variables of ``tf.get_variable``, such as ``tf.min_max_variable_partitioner(num_ps)`` does
            with large ones.
        cluster: the place of this process; None calls `resolve_cluster`.
        waits: the timeouts.
        precision: as for `DistributedTrainer`.
        compile: as for `DistributedTrainer`.
        tower_building: as for `DataParallelBuilder`.

    Raises:
        ConfigError: An argument is out of range, or the cluster has no parameter server.
        ClusterError: The workers do not find each other.

    Example:
        launch_train_with_config(config, DistributedTrainerParameterServer(1))  # tpack launch -n 2 --ps 1 train.py
    """

    _builder_on_servers: ParameterServerBuilder

    def __init__(
        self,
        gpus: int | Sequence[int],
        server: tf.train.Server | None = None,
        caching_device: str | None = "cpu",
        *,
        synchronous: bool = False,
        max_staleness: int | None = None,
        partitioner: Callable[..., Sequence[int]] | None = None,
        cluster: ClusterMember | ClusterTask | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        if max_staleness is not None:
            check_count(self, "max_staleness", max_staleness, 0)
            if synchronous:
                raise ConfigError(
                    f"{type(self).__name__} got max_staleness={max_staleness}: expected None with synchronous=True"
                )
        options = SharingOptions(caching_device, partitioner)
        self._max_staleness = max_staleness
        self._progress: Progress | None = None
        self._updates: list[RunUpdateOps] = []

        def make_builder(group: WorkerGroup) -> GraphBuilder:
            self._progress = None if synchronous else Progress(group.rank, group.size)
            self._builder_on_servers = ParameterServerBuilder(
                gpus,
                self.placement,
                stop_flag=self.stop_flag,
                options=options,
                progress=self._progress,
                tower_building=tower_building,
            )
            return self._builder_on_servers

        self._settings = {"synchronous": synchronous, "max_staleness": max_staleness, "caching_device": caching_device}
        super().__init__(make_builder, server, cluster=cluster, waits=waits, precision=precision, compile=compile)
        if not self.serves and (synchronous or not self.is_chief):
            self._step_counter = StepCounter(self.loop, increments=False)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), **self._settings}

    def _scope(self) -> ExitStack:
        scopes = ExitStack()
        scopes.enter_context(self.graph.as_default())
        scopes.enter_context(self.placement.scope())
        # First, before variables that only some workers have, so that its placement is the same in all.
        get_global_step_var()
        return scopes

    def _variables_of_all(self) -> list[tf.Variable]:
        return [*tf.trainable_variables(), get_global_step_var()]

    def _callbacks_of_several(self) -> list[Callback]:
        # Without synchronisation, different steps are normal.
        is_synchronous = self._progress is None
        self._heartbeat = StepHeartbeat(self.peers, self.stop_flag, self._stop, has_equal_steps=is_synchronous)
        callbacks: list[Callback] = [self._heartbeat]
        if self._progress is None:
            return callbacks
        if self._max_staleness is not None and self.peers.size > 1:
            limit_secs = self._waits.timeout_secs
            callbacks.append(BoundedStaleness(self._progress, self._max_staleness, self.peers.rank, limit_secs))
        return [*callbacks, EpochBarrier(self.peers)]

    def register_callback(self, cb: Callback | Sequence[Callback]) -> bool:
        """Do as `Trainer.register_callback`; only the chief runs update operations of shared variables."""
        if not isinstance(cb, RunUpdateOps):
            return super().register_callback(cb)
        if not self.is_chief:
            return False
        self._updates.append(cb)
        return super().register_callback(cb)

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Do as `DistributedTrainer.setup_callbacks`; synchronous workers all read a variable before its update."""
        super().setup_callbacks(callbacks, monitors)
        for each in self._updates:
            if each.with_step is not None:
                self._builder_on_servers.order_updates(each.with_step)

    def _share_values(self) -> None:
        """Do nothing: variables are shared."""

    def _compare_values(self) -> None:
        """Do nothing: variables are shared."""

    def _only_on_servers(self) -> Sequence[tf.Variable]:
        return () if self._progress is None else self._progress.variables


@check_arguments
class DistributedTrainerReplicated(DistributedTrainer):
    """Train K towers with their own variables in each of W workers, with gradients averaged on parameter servers.

    The servers have a master copy (shadow) of each trained variable. Worker 0 applies the average of all workers'
    gradients to it, and every worker copies the result to its towers. Repeated runs are equal.

    Args:
        gpus: the number of towers of each worker, or the numbers of their GPUs.
        server: the TensorFlow server of this process, if the script has started one.
        cluster: the place of this process; None calls `resolve_cluster`.
        waits: the timeouts.
        precision: as for `DistributedTrainer`.
        compile: as for `DistributedTrainer`.
        tower_building: as for `DataParallelBuilder`.

    Raises:
        ConfigError: An argument is out of range, or the cluster has no parameter server.
        ClusterError: The workers do not find each other.

    Example:
        launch_train_with_config(config, DistributedTrainerReplicated(4))  # tpack launch -n 2 --ps 2 train.py
    """

    _shadow_builder: ReplicatedParameterServerBuilder

    def __init__(
        self,
        gpus: int | Sequence[int],
        server: tf.train.Server | None = None,
        *,
        cluster: ClusterMember | ClusterTask | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        def make_builder(group: WorkerGroup) -> GraphBuilder:
            self._shadow_builder = ReplicatedParameterServerBuilder(
                gpus, self.placement, stop_flag=self.stop_flag, tower_building=tower_building
            )
            return self._shadow_builder

        super().__init__(make_builder, server, cluster=cluster, waits=waits, precision=precision, compile=compile)

    def _variables_of_all(self) -> list[tf.Variable]:
        return [*tf.trainable_variables(), get_global_step_var()]

    def _callbacks_of_several(self) -> list[Callback]:
        push = self._shadow_builder.push
        return [*super()._callbacks_of_several(), *([] if push is None else [PushBeforeEpoch(push)])]

    def _share_values(self) -> None:
        super()._share_values()
        if self._shadow_builder.push is not None:
            self._init_ops.append(self._shadow_builder.push)

    def _only_on_servers(self) -> Sequence[tf.Variable]:
        return self._shadow_builder.shadows


def wait_for_parameter_servers(member: ClusterMember, timeout_secs: float) -> None:
    """Wait until the parameter servers listen.

    Raises:
        ClusterError: Some do not, in time; the message names them.
    """
    deadline = time.monotonic() + timeout_secs
    missing = dict(enumerate(member.cluster["ps"]))
    while missing:
        missing = {index: address for index, address in missing.items() if not _listens(address)}
        if missing and time.monotonic() > deadline:
            named = ", ".join(f"ps {index} at {address}" for index, address in missing.items())
            raise ClusterError(f"of {len(member.cluster['ps'])} parameter servers {named} did not start in time")
        if missing:
            time.sleep(_POLL_SECS)


def _listens(address: str) -> bool:
    try:
        with socket.create_connection(parse_address("ClusterMember", "cluster.ps", address), timeout=1.0):
            return True
    except OSError:
        return False


def _member(
    server: tf.train.Server | None, cluster: ClusterMember | ClusterTask | None, waits: WaitLimits
) -> ClusterMember:
    if isinstance(cluster, ClusterMember):
        return cluster
    if server is None or cluster is not None:
        return resolve_cluster(cluster, timeout_secs=waits.timeout_secs)
    spec = server.server_def
    jobs = {job.name: [job.tasks[index] for index in sorted(job.tasks)] for job in spec.cluster.job}
    return resolve_cluster(ClusterTask(jobs, spec.job_name, spec.task_index), timeout_secs=waits.timeout_secs)
