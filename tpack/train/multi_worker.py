"""Trainers of several workers: each process builds a graph of its own, and they meet at each step.

What a trainer of one machine does is done in each worker. Here is what they do together: they compare what they are
about to train, begin with the values of worker 0, which alone restores a checkpoint, and end together: none is left
waiting in a step for one that is lost, failed or was told to end.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.monitors.base import MonitorBase
from tpack.cluster.member import ClusterMember, ClusterRank, ClusterTask
from tpack.cluster.peers import Peers, connect_peers
from tpack.cluster.resolver import resolve_cluster
from tpack.copying.towers import TowerBuilding
from tpack.errors import ClusterError, ConfigError, StopTraining
from tpack.graph_builder.base import GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.input_source.base import InputSource
from tpack.multi_worker.agreement import check_agreement, facts_of_program, facts_of_variables
from tpack.multi_worker.exchange import Exchange, WorkerGroup, copy_from_worker
from tpack.multi_worker.replicated import MultiWorkerReplicatedBuilder
from tpack.multi_worker.servers import WorkerSessionCreator
from tpack.reduction.modes import ReductionMode
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator
from tpack.tfutils.sessinit import SessionInit
from tpack.tfutils.step.step_seeds import differ_by_worker
from tpack.train.config import TrainConfig
from tpack.train.interruption import Interrupted, Interruption
from tpack.train.single_cost import BuilderTrainer
from tpack.train.trainers import reducer_for_towers
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_number

_LAST_WAIT_SECS = 86400.0
"""How long workers wait at the end for one that saves or validates; one that is lost is noticed long before."""


@check_arguments
@dataclass(frozen=True)
class WaitLimits:
    """How long the workers of a training wait for each other.

    Args:
        heartbeat_secs: after how long of silence a worker is taken for lost. One that is killed is found at once.
        straggler_secs: after how long a worker that others wait for is named in the log.
        timeout_secs: how long workers wait for each other before the first step.

    Raises:
        ConfigError: A number is not positive.
    """

    heartbeat_secs: float = 10.0
    straggler_secs: float = 60.0
    timeout_secs: float = 300.0

    def __post_init__(self) -> None:
        for name in ("heartbeat_secs", "straggler_secs", "timeout_secs"):
            check_number(self, name, getattr(self, name), 0, is_low_allowed=False)


class MultiWorkerTrainer(BuilderTrainer):
    """Base of trainers of several workers, each of which has variables of its own, equal to those of the others.

    A process that is alone trains as a trainer of one machine does.

    Args:
        make_builder: makes the builder, for a group of workers.
        cluster: the place of this process; None is found out by `resolve_cluster`, as is one that is not yet a member.
        waits: how long workers wait for each other.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.

    Attributes:
        member: the place of this process.
        group: the workers, as what they exchange in the graph needs them.
        peers: the workers, for small values between steps.

    Raises:
        ConfigError: The process is no worker, or from `resolve_cluster`.
        ClusterError: The workers do not find each other.
    """

    peers: Peers

    def __init__(
        self,
        make_builder: Callable[[WorkerGroup], GraphBuilder],
        cluster: ClusterMember | ClusterTask | ClusterRank | None = None,
        *,
        waits: "WaitLimits | None" = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        waits = waits or WaitLimits()
        self.member = cluster if isinstance(cluster, ClusterMember) else _resolved(cluster, waits)
        if self.member.rank is None:
            raise ConfigError(f"{type(self).__name__} is for those that train, and {self.member}")
        self.peers = connect_peers(
            self.member,
            heartbeat_secs=waits.heartbeat_secs,
            straggler_secs=waits.straggler_secs,
            timeout_secs=waits.timeout_secs,
        )
        self.is_chief = self.peers.rank == 0
        self._waits = waits
        self._was_lost = threading.Event()
        self._has_differing_seed = False
        with self._together():
            run = self.peers.broadcast("the name of the run", uuid.uuid4().hex)
            is_alone = self.peers.size == 1
            self.group = WorkerGroup(("",), 0, run) if is_alone else WorkerGroup.of_member(self.member, run)
            super().__init__(make_builder(self.group), precision=precision, compile=compile)
        self.peers.on_lost(self._end_for_others)

    def _check_processes(self) -> None:
        """Be one of several processes."""

    def follow_chief(self, config: TrainConfig) -> None:
        """Let a config begin where the chief's does, which has looked for checkpoints, and draw other numbers than it.

        Args:
            config: this worker's.
        """
        with self._together():
            start = self.peers.broadcast("where training begins", config.start())
            if not self.is_chief:
                config.begin_at(start)
            self._differ_from_others()

    def _differ_from_others(self) -> None:
        if not self._has_differing_seed:
            self._has_differing_seed = True
            with self.graph.as_default():
                differ_by_worker(self.peers.rank)

    def setup_graph(
        self,
        input_signature: Sequence[tf.TensorSpec | tf.Tensor],
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: OptimizerFn,
    ) -> None:
        """Build the training graph of this worker, and compare it with those of the others.

        Args:
            input_signature: as for `SingleCostTrainer.setup_graph`.
            input: where this worker's data come from.
            get_cost_fn: as for `SingleCostTrainer.setup_graph`.
            get_opt_fn: as for `SingleCostTrainer.setup_graph`.

        Raises:
            ClusterError: Another worker has other variables or settings; all raise it.
            ConfigError: As `SingleCostTrainer.setup_graph`, as for the rest.
            GraphBuildError: The model cannot be trained.
            TowerMismatchError: The towers differ.
        """
        with self._together():
            self._differ_from_others()
            super().setup_graph(input_signature, input, get_cost_fn, get_opt_fn)
            with self.graph.as_default():
                get_global_step_var()
                variables = tf.global_variables()
                facts = {**facts_of_program(), **self._facts(), **facts_of_variables(variables)}
            check_agreement(self.peers, "what they train", facts)
            self._shared = list(variables)

    def _facts(self) -> dict[str, Any]:
        """Return the settings that all workers must share, besides the program and the variables."""
        return {"the trainer": type(self).__name__, "towers": len(self.devices), "precision": self.precision}

    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        self._copy_to_all = CopyBeforeEpoch()
        callbacks = super()._setup_graph(grad_fn, optimizer_fn)
        return [StepNotes(self.peers), self._copy_to_all, *callbacks] if self.peers.size > 1 else callbacks

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Do as `Trainer.setup_callbacks`, and let variables that callbacks have made on all workers be shared."""
        super().setup_callbacks(callbacks, monitors)
        if self.peers.size == 1:
            return
        with self.graph.as_default():
            made = facts_of_variables(tf.global_variables())
            of_all = self.peers.gather("the variables of callbacks", made)
            in_all = {name for name, fact in made.items() if all(each.get(name) == fact for each in of_all)}
            self._shared = [v for v in tf.global_variables() if f"variable {v.op.name}" in in_all]
            op = copy_from_worker(self.group, self._shared)
        self._copy_to_all.op = op
        self._init_ops.insert(0, op)
        if not self.is_chief:
            self._set_by_init_ops.extend(self._shared)

    def initialize(self, session_creator: SessionCreator, session_init: SessionInit | None = None) -> None:
        """Create the session on the server of this process, and begin with the values of worker 0.

        Args:
            session_creator: a `NewSessionCreator`, whose settings the session gets.
            session_init: gives worker 0 its values; the others have no use for it.

        Raises:
            ConfigError: ``session_creator`` is another one; or as `Trainer.initialize`, as for the rest.
            ClusterError: The workers are to make different numbers of steps, a port is in use, or a worker was lost.
            DeviceError: The session lacks a device that the graph asks for.
            CheckpointError: What is to be restored is missing, damaged or of other shapes.
        """
        if self.peers.size == 1:
            super().initialize(session_creator, session_init)
            return
        loop = self.loop
        facts = {
            "steps of an epoch": loop.steps_per_epoch,
            "the first epoch": loop.starting_epoch,
            "the last epoch": loop.max_epoch,
            "steps made of the first epoch": loop.starting_step,
            "steps of a call": self.steps_per_call,
        }
        check_agreement(self.peers, "how long they train", facts)
        creator = self._on_server(session_creator)
        with self.graph.as_default(), tf.device(self.group.tasks[self.group.rank]):
            super().initialize(creator, session_init if self.is_chief else None)
        self._compare_values()

    def _on_server(self, session_creator: SessionCreator) -> WorkerSessionCreator:
        if isinstance(session_creator, WorkerSessionCreator):
            return session_creator
        if type(session_creator) is not NewSessionCreator or session_creator.target:
            raise ConfigError(
                f"{type(self).__name__} has its session on the server of its own process, and got {session_creator!r} "
                "to create it: wanted a NewSessionCreator, which may have a config, or a WorkerSessionCreator"
            )
        return WorkerSessionCreator(
            self.member,
            session_creator.config,
            grappler=session_creator.grappler,
            before_connecting=lambda: self.peers.barrier("the start of their servers"),
        )

    def _compare_values(self) -> None:
        """Compare what all workers begin with: a copy that went wrong would never show."""
        with self.sess.as_default():
            values = self.sess.run(self._shared)
        sums = {v.op.name: crc32(np.ascontiguousarray(value)) for v, value in zip(self._shared, values, strict=True)}
        check_agreement(self.peers, "the first values of variables", sums)

    def _fixed_executor(self) -> str:
        # Another process than the one that asks runs the kernels, as far as TensorFlow is concerned.
        return "pool" if self.peers.size > 1 else super()._fixed_executor()

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Do as `Trainer.train`, on all workers together, and end what they have in common.

        Args:
            *args: as for `Trainer.train`.
            **kwargs: as for `Trainer.train`.

        Raises:
            ClusterError: Another worker was lost, or failed; the message names it.
        """
        with self._together():
            super().train(*args, **kwargs)
        self.peers.close()

    def _meet_before(self, epoch_num: int) -> None:
        """Go on with the next epoch if all do."""
        self._meet(f"the beginning of epoch {epoch_num}", "")

    def _train(self, interruption: Interruption) -> None:
        try:
            super()._train(interruption)
        except (StopTraining, Interrupted) as request:
            others_go_on = self.loop.epoch_finished and self.loop.epoch_num < self.loop.max_epoch
            if others_go_on and not isinstance(request, _StoppedTogether):
                self._meet(f"the beginning of epoch {self.loop.epoch_num + 1}", str(request) or "no reason given")
            raise

    def _meet(self, topic: str, reason_to_stop: str) -> None:
        """Wait for all; if one has a reason to stop, let those that have none stop too."""
        if self.peers.size == 1:
            return
        reasons = self.peers.gather(topic, reason_to_stop, timeout_secs=_LAST_WAIT_SECS)
        told = [f"worker {rank}: {reason}" for rank, reason in enumerate(reasons) if reason]
        if told and not reason_to_stop:
            raise _StoppedTogether("; ".join(told))

    def _finish(self, *, has_failed: bool) -> None:
        if not has_failed:
            # The last sums that others take lie on this process's server.
            self.peers.barrier("the end of training", timeout_secs=_LAST_WAIT_SECS)
        super()._finish(has_failed=has_failed)

    # What is done when one of them fails.

    def _end_for_others(self, error: ClusterError) -> None:
        """End what this worker does, in a thread of its own, since it cannot go on without another."""
        self._lost_error = error
        self._was_lost.set()
        if self.interruption is not None:
            self.interruption.fail(error)
        else:
            self._close_session()

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Tell the others of an error that ends this worker, or raise what they have told if it follows from that."""
        try:
            yield
        except Exception as error:
            lost = self._loss_behind(error)
            if lost is None:
                self.peers.report_failure(f"{type(error).__name__}: {error}")
            self.peers.close()
            if lost is None or lost is error:
                raise
            raise lost from error
        except BaseException:
            self.peers.close()
            raise

    def _loss_behind(self, error: Exception) -> ClusterError | None:
        """Return the loss of another worker from which an error follows, if it may and there is one."""
        if not _may_come_from_others(error) and not self._was_lost.is_set():
            return None
        # TensorFlow may notice that a connection has ended before those are asked who know who has gone.
        self._was_lost.wait(self._waits.heartbeat_secs + 1)
        try:
            self.peers.check()
        except ClusterError as lost:
            return lost
        return None


@check_arguments
class MultiWorkerTrainerReplicated(MultiWorkerTrainer):
    """Trains K towers with their own variables in each of W workers, and all-reduces the gradients over all of them.

    Every worker runs the same script, which a launcher has started as several processes (``tpack launch``, ``srun``,
    ``mpirun``, a Job of Kubernetes); alone, it trains as `SyncMultiGPUTrainerReplicated` does.

    Args:
        gpus: how many towers each worker has, or the numbers of their GPUs; all workers have as many.
        average: average the gradients, or sum them.
        mode: as for `SyncMultiGPUTrainerReplicated`, inside a worker.
        wire_dtype: ``"bfloat16"`` or ``"float16"`` rounds gradients for their way between workers; see `Exchange`.
        cluster: the place of this process; None is found out by `resolve_cluster`.
        waits: how long workers wait for each other.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.
        tower_building: as for `DataParallelBuilder`.

    Raises:
        ConfigError: An argument cannot be, or the process is no worker.
        ClusterError: The workers do not find each other.

    Example:
        launch_train_with_config(config, MultiWorkerTrainerReplicated(8))
    """

    def __init__(
        self,
        gpus: int | Sequence[int],
        average: bool = True,
        mode: ReductionMode = None,
        *,
        wire_dtype: str | tf.DType | None = None,
        cluster: ClusterMember | ClusterTask | ClusterRank | None = None,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        exchange, reducer = Exchange(wire_dtype), reducer_for_towers(gpus, mode)

        def make_builder(group: WorkerGroup) -> GraphBuilder:
            return MultiWorkerReplicatedBuilder(
                gpus, group, average=average, reducer=reducer, exchange=exchange, tower_building=tower_building
            )

        self._settings = {"average": average, "the reducer": reducer.name, "the exchange": exchange}
        super().__init__(make_builder, cluster, waits=waits, precision=precision, compile=compile)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), **self._settings}


class StepNotes(Callback):
    """Tell the other workers, without waiting for them, which step this one begins.

    Args:
        peers: the workers.
    """

    _chief_only = False

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def _before_run(self, ctx: tf.train.SessionRunContext) -> None:
        self._peers.note_step(self.global_step + self.trainer.num_coming)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()


class CopyBeforeEpoch(Callback):
    """Give all workers the chief's variables before each epoch.

    Callbacks change the chief's, and statistics that each worker gathers for itself, such as those of batch
    normalisation, begin each epoch alike. What is saved are the chief's.

    Attributes:
        op: makes the copies; known when all variables are.
    """

    _chief_only = False
    passes_changes_on = True
    op: tf.Operation

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self.op)


class _StoppedTogether(StopTraining):
    """Another worker has asked for the end of training."""


def _resolved(cluster: ClusterTask | ClusterRank | None, waits: WaitLimits) -> ClusterMember:
    return resolve_cluster(cluster, timeout_secs=waits.timeout_secs)


def _may_come_from_others(error: BaseException | None) -> bool:
    """Tell whether an error may follow from the loss of another process: of a connection, or in an exchange."""
    while error is not None and not isinstance(error, tf.errors.OpError):
        error = error.__cause__
    if error is None:
        return False
    connection = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError)
    return isinstance(error, connection) or any(scope in error.message for scope in ("exchange_", "copy_variables"))
