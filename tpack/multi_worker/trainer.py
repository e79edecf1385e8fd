"""Trainers of several workers: each process builds a graph of its own, and they exchange gradients in each step.

Each worker does what a trainer of one machine does. Together they compare what they are about to train, begin with the
values of worker 0, which alone restores a checkpoint, and stop together.
"""

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import ConfigError, DataExhaustedError, Interrupted, NumericsError, StopTraining
from tpack.graph_builder.base import GradFn, GraphBuilder, OptimizerFn
from tpack.graph_builder.compiled import Compile
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.input_source.base import InputSource
from tpack.multi_worker.all_reduce import Arrivals, copy_from_worker
from tpack.multi_worker.callbacks import (
    BroadcastFromChief,
    LauncherReport,
    NonFiniteOrigin,
    PassCheck,
    ReplicaCheck,
    StepHeartbeat,
    facts_of_shards,
    report_lengths,
)
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.consistency import check_consistency, compare_values, program
from tpack.multi_worker.cluster.cpu_share import share_of_cores
from tpack.multi_worker.cluster.peers import Peers, connect_peers, described, ended_by_loss
from tpack.multi_worker.cluster.resolver import own_place, resolve_cluster
from tpack.multi_worker.codecs.rank_state import rank_variables_here
from tpack.multi_worker.coordinated_stop import CoordinatedStop, StopFlag
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.optimizer_fingerprint import fingerprint_of_optimizer, updated_by_optimizers
from tpack.multi_worker.servers import LOST_CONNECTION, WorkerSessionCreator, let_calls_to_lost_servers_fail
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.cross_replica import across_workers
from tpack.step.step_seeds import differ_by_worker
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import NewSessionCreator, SessionCreator
from tpack.tfutils.sessinit import SessionInit
from tpack.tower.grads import Gradient
from tpack.train.config import TrainConfig
from tpack.train.interruption import CLOSE_SECS, Interruption
from tpack.train.single_cost import BuilderTrainer
from tpack.utils import logger
from tpack.utils.launch_env import ClusterRank
from tpack.utils.lazy import LazyModule
from tpack.utils.progress import any_launcher_line, report_phase
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments, check_number

_state_files = LazyModule("tpack.multi_worker.codecs.state_files")


@check_arguments
@dataclasses.dataclass(frozen=True)
class WaitLimits:
    """Timeouts of the workers of a training.

    Args:
        heartbeat_secs: of silence, after which a worker is lost. A killed worker is detected at once.
        straggler_secs: after which a worker that others wait for is named in the log; at least `heartbeat_secs`.
        timeout_secs: how long workers wait for each other before the first step.
        step_timeout_secs: after which a worker that hangs in a step, as in its data or a ``py_func``, is lost, so that
            all end; not before it was named, and never between steps. None for never.

    Raises:
        ConfigError: A number is not positive, or the second is less than the first.
    """

    heartbeat_secs: float = 10.0
    straggler_secs: float = 60.0
    timeout_secs: float = 300.0
    step_timeout_secs: float | None = 1800.0

    def __post_init__(self) -> None:
        names = ["heartbeat_secs", "timeout_secs", *([] if self.step_timeout_secs is None else ["step_timeout_secs"])]
        for name in names:
            check_number(self, name, getattr(self, name), 0, is_low_allowed=False)
        check_number(self, "straggler_secs", self.straggler_secs, self.heartbeat_secs)


class MultiWorkerTrainer(BuilderTrainer):
    """Base of trainers of several workers, each of which has variables of its own, equal to those of the others.

    A process that is alone trains as a trainer of one machine does.

    Args:
        make_builder: makes the builder, for a group of workers; where NaN arises is found by its ``own_gradients``, if
            it has that, and by the cost.
        cluster: the place of this process; None, or what is not a member yet, goes through `resolve_cluster`.
        waits: the timeouts.
        precision: see `SingleCostTrainer`.
        compile: see `SingleCostTrainer`.

    Attributes:
        member: the place of this process.
        group: the workers, for exchanges in the graph.
        peers: the workers, for small values between steps.
        stop_flag: the stop flag of a step.
        arrivals: counters of the workers' parts of the current step.

    Raises:
        ConfigError: The process is not a worker, or from `resolve_cluster`.
        ClusterError: The workers do not find each other.
    """

    peers: Peers

    def __init__(
        self,
        make_builder: Callable[[WorkerGroup], GraphBuilder],
        cluster: ClusterMember | ClusterTask | ClusterRank | None = None,
        *,
        waits: WaitLimits | None = None,
        precision: str | PrecisionPolicy = "float32",
        compile: Compile = None,
    ) -> None:
        waits = waits or WaitLimits()
        if cluster is None:
            cluster = own_place()
        self.member = cluster if isinstance(cluster, ClusterMember) else resolve_cluster(cluster)
        if self.member.rank is None:
            raise ConfigError(f"{type(self).__name__} got {self.member}: expected a process that trains")
        report_phase("importing")
        self.peers = self._connect(waits)
        report_phase("rendezvous")
        self.is_chief = self.peers.rank == 0
        self.stop_flag = StopFlag()
        self.arrivals = Arrivals()
        self._stop = CoordinatedStop(self.peers, self.stop_flag)
        self._heartbeat: StepHeartbeat | None = None
        self._compare: ReplicaCheck | None = None
        self._rank_state: Any = None
        self._has_differing_seed = False
        self._optimizer_settings: dict[str, Any] = {}
        self._apart: frozenset[str] = frozenset()
        with self._telling_others():
            run = self.peers.broadcast("the name of the run", uuid.uuid4().hex)
            self.group = WorkerGroup(("",), 0, run) if self.is_alone else WorkerGroup.of_member(self.member, run)
            super().__init__(make_builder(self.group), precision=precision, compile=compile)
        if self.compiler is not None:
            self.compiler.is_on_server = not self.is_alone

    def _check_processes(self) -> None:
        """Allow several processes."""

    def _connect(self, waits: WaitLimits) -> Peers:
        """Return the control channel."""
        return connect_peers(self.member, **vars(waits))

    @property
    def is_alone(self) -> bool:
        """Whether this is the only process of the training."""
        return self.peers.size == 1

    def follow_chief(self, config: TrainConfig) -> None:
        """Begin where the chief does, which has looked for checkpoints, with other random numbers."""
        with self._telling_others():
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

        Raises:
            ClusterError: Another worker has other variables or settings, or another order; all raise it.
            ConfigError: As `SingleCostTrainer.setup_graph`, as for the rest.
            GraphBuildError: The model cannot be trained.
            TowerMismatchError: The towers differ.
        """
        with self._telling_others():
            self._differ_from_others()
            super().setup_graph(input_signature, self._prepared(input), get_cost_fn, get_opt_fn)
            with self.graph.as_default():
                get_global_step_var()
                variables = self._variables_of_all()
                facts = {**program(), **self._facts(), "variables": _kinds(variables)}
                facts["the order of variables"] = [variable.op.name for variable in variables]
                facts["the order of gradients"] = exchanged_here()
                facts["the optimizer"] = self._optimizer_settings
                facts |= facts_of_shards(input)
            check_consistency(self.peers, facts)
            if not self.is_alone:
                self.register_callback(PassCheck(input, self.peers, has_warned=report_lengths(input, self.peers)))
            self._shared = variables

    def _prepared(self, source: InputSource) -> InputSource:
        """Return the source that the towers read."""
        return source

    def _facts(self) -> dict[str, Any]:
        """Return the settings that must be the same in all workers, besides the program and the variables."""
        return {"the trainer": type(self).__name__, "towers": len(self.devices), "precision": repr(self.precision)}

    def _variables_of_all(self) -> list[tf.Variable]:
        """Return the variables that all workers have after the set-up of the graph."""
        return self._not_apart()

    def _not_apart(self) -> list[tf.Variable]:
        """Return the global variables without those that one worker has, and others have not."""
        return [variable for variable in tf.global_variables() if variable.op.name not in self._apart]

    def _setup_graph(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> list[Callback]:
        def noted_optimizer() -> tf.train.Optimizer:
            optimizer = optimizer_fn()
            # Before it is used, which not all workers do.
            self._optimizer_settings = self._optimizer_settings or fingerprint_of_optimizer(optimizer)
            return optimizer

        line = any_launcher_line()
        reports = [] if line is None else [LauncherReport(line)]
        if self.is_alone:
            return [*reports, *super()._setup_graph(grad_fn, noted_optimizer)]
        with across_workers(None):
            # Unless the builder has an exchange in each step.
            callbacks = super()._setup_graph(grad_fn, noted_optimizer)
        self._origin = NonFiniteOrigin(self.group, self._own_gradients)
        return [self._origin, *self._callbacks_of_several(), *reports, *callbacks]

    def _own_gradients(self) -> Sequence[Gradient]:
        """Return the gradients of this worker before they are exchanged, as far as the builder has them."""
        return tuple(getattr(self.builder, "own_gradients", ()))

    def _callbacks_of_several(self) -> list[Callback]:
        """Return the callbacks for each of several workers."""
        self._heartbeat = StepHeartbeat(self.peers, self.stop_flag, self._stop)
        self._compare, self._copy_to_all = ReplicaCheck(self.peers), BroadcastFromChief()
        callbacks = [self._heartbeat, self._compare, self._copy_to_all]
        if rank_variables_here():
            self._rank_state = _state_files.RankStateFiles(self.peers)
            callbacks.append(self._rank_state)
        return callbacks

    def agree_to_save(self, wanted: bool = True) -> bool:
        """Return whether worker 0 saves now; workers with variables of their own compare them before.

        Raises:
            ClusterError: Their values differ: nothing is saved, and earlier checkpoints are kept.
        """
        if self._compare is None:
            return super().agree_to_save(wanted)
        saves = self._compare.agree_to_save(wanted)
        if saves and self._rank_state is not None:
            self._rank_state.write()
        return saves

    def run_between_steps(self, op: tf.Operation) -> None:
        """Run an operation that synchronises the towers of all workers, watched as a step is, with its stop flag."""
        flag = self.stop_flag.total if self.stop_flag.is_between_steps else None
        if self._heartbeat is None or flag is None:
            super().run_between_steps(op)
            return
        self.peers.note_step(self.loop.global_step, is_running=True)
        _, total = self.sess.run([op, flag])
        self._stop.total = float(total)
        self.peers.note_step(self.loop.global_step)

    def setup_callbacks(self, callbacks: Sequence[Callback], monitors: Sequence[MonitorBase]) -> None:
        """Do as `Trainer.setup_callbacks`, and share variables that callbacks have created on all workers."""
        super().setup_callbacks(callbacks, monitors)
        if not self.is_alone:
            self._share_values()

    def _share_values(self) -> None:
        """Copy the values of worker 0 to all at the beginning, and around each epoch."""
        with self.graph.as_default():
            made = _kinds(self._not_apart())
            of_all = self.peers.gather("the variables of callbacks", made)
            in_all = {name for name, fact in made.items() if all(each.get(name) == fact for each in of_all)}
            self._shared = [v for v in self._not_apart() if v.op.name in in_all]
            names = [variable.op.name for variable in self._shared]
            check_consistency(self.peers, {"the order of variables that worker 0 sends to all": names})
            trained = {variable.op.name for variable in tf.trainable_variables()}
            untrained = [variable for variable in self._shared if variable.op.name not in trained]
            self._copy_to_all.of_all = copy_from_worker(self.group, self._shared)
            self._copy_to_all.of_untrained = copy_from_worker(self.group, untrained, name="untrained")
        if self._compare is not None:
            alike = (trained | updated_by_optimizers(self.graph)) - getattr(self.builder, "own_state", frozenset())
            self._compare.variables = [variable for variable in self._shared if variable.op.name in alike]
        self._init_ops.insert(0, self._copy_to_all.of_all)
        if not self.is_chief:
            self._set_by_init_ops.extend(self._shared)

    def initialize(self, session_creator: SessionCreator, session_init: SessionInit | None = None) -> None:
        """Create the session on the server of this process, and begin with the values of worker 0.

        Args:
            session_creator: a `NewSessionCreator`, whose settings the session gets.
            session_init: the first values, for worker 0; the others ignore it.

        Raises:
            ConfigError: ``session_creator`` is another one; or as `Trainer.initialize`, as for the rest.
            ClusterError: The workers are to make different numbers of steps, a port is in use, or a worker was lost.
            DeviceError: The session lacks a device of the graph.
            CheckpointError: A value to restore is missing, damaged or of another shape.
        """
        if self.is_alone:
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
        check_consistency(self.peers, facts)
        creator = self._on_server(session_creator)
        report_phase("graph")
        with self.graph.as_default(), tf.device(self.group.tasks[self.group.rank]):
            super().initialize(creator, self._first_values(session_init if self.is_chief else None))
        self._compare_values()
        if self._rank_state is not None:
            self._rank_state.load()
        self.peers.on_stall(self._awaited)
        report_phase("restoring")

    def _first_values(self, session_init: SessionInit | None) -> SessionInit | None:
        """Return what to restore, for the chief."""
        return session_init

    def _awaited(self) -> list[int]:
        """Return the ranks that this worker waits for in its step; called from another thread."""
        try:
            return self.arrivals.missing(self.sess)
        except (RuntimeError, tf.errors.OpError):
            # The session is closed, or about to be.
            return []

    def _on_server(self, session_creator: SessionCreator) -> WorkerSessionCreator:
        num_cores = share_of_cores(self.peers)
        if isinstance(session_creator, WorkerSessionCreator):
            return session_creator
        if type(session_creator) is not NewSessionCreator or session_creator.target:
            raise ConfigError(
                f"{type(self).__name__} got session_creator={session_creator!r}: expected a NewSessionCreator, which "
                "may have a config, or a WorkerSessionCreator, for a session on the server of its own process"
            )
        return WorkerSessionCreator(
            self.member,
            session_creator.config,
            grappler=session_creator.grappler,
            num_cores=num_cores,
            before_connecting=self._wait_for_servers,
        )

    def _wait_for_servers(self) -> None:
        self.peers.barrier("the start of their servers")
        let_calls_to_lost_servers_fail()

    def _compare_values(self) -> None:
        compare_values(self.peers, self.sess, self._shared, "checksums of first values")

    def _fixed_executor(self) -> str:
        # For TensorFlow, the kernels run in another process than the session.
        return super()._fixed_executor() if self.is_alone else "pool"

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Do as `Trainer.train`, on all workers together, and close the control channel.

        Raises:
            ClusterError: Another worker was lost, or failed; the message names it.
            DataExhaustedError: The data of this worker end too early; the others name it and the step.
        """
        try:
            with ended_by_loss(self.peers, self._break_off, lost_connection=LOST_CONNECTION):
                try:
                    super().train(*args, **kwargs)
                except DataExhaustedError as error:
                    loop = self.loop
                    steps = f"after step {loop.local_step} of {loop.steps_per_epoch} in epoch {loop.epoch_num}"
                    raise DataExhaustedError(f"the data of worker {self.peers.rank} ended {steps}: {error}") from error
        finally:
            self.peers.close()

    def _meet_before(self, epoch_num: int) -> None:
        self._stop.before_epoch(epoch_num)

    def _train(self, interruption: Interruption) -> None:
        try:
            super()._train(interruption)
        except NumericsError as error:
            if not self.is_alone:
                self._report_not_finite(error)
            raise
        except (StopTraining, Interrupted) as request:
            # After the last step of an epoch, the others have no flag yet.
            if self.loop.epoch_finished and self.loop.epoch_num < self.loop.max_epoch:
                self._stop.end_after_epoch(self.loop.epoch_num + 1, request)
            raise

    def _report_not_finite(self, error: NumericsError) -> None:
        """Report NaN to the others, which find the same: the first one that does need not be the origin."""
        since = self._origin.first_step()
        if since >= 0:
            logger.error(f"The cost or the gradients of this worker itself are not finite since step {since}.")
        self.peers.report_failure(described(error), not_finite_since=since)

    def _finish(self, *, has_failed: bool) -> None:
        if not has_failed:
            # Others may still read the last sums from this process's server.
            self.peers.barrier("the end of training", timeout_secs=LONG_WAIT_SECS)
        super()._finish(has_failed=has_failed)

    # Failures, and requests to stop.

    def _break_off(self) -> None:
        """Make the current wait return after a peer failure; in a thread of its own."""
        error = self.peers.error
        if self.interruption is not None and error is not None:
            self.interruption.fail(error)
        else:
            self._close_session()

    @contextmanager
    def _telling_others(self) -> Iterator[None]:
        """Report an error before the training to the others."""
        try:
            yield
        except BaseException as error:
            self.peers.report_failure(described(error))
            self.peers.close()
            raise

    def _end_if_asked(self, interruption: Interruption, trigger_step: Callable[[], None] | None = None) -> None:
        """Stop after the step after which all workers do: a worker that is to stop makes one more."""
        request: BaseException | None = None
        try:
            super()._end_if_asked(interruption, trigger_step)
        except (StopTraining, Interrupted) as error:
            if self.is_alone:
                raise
            request = error
        self._stop.after_step(self.sess, request)

    def _make_steps(self) -> int:
        num_made = super()._make_steps()
        if self._heartbeat is not None and num_made < self.loop.num_coming:
            self._heartbeat.ended_early()
        return num_made

    def _let_go_secs(self) -> float | None:
        # The others stop after the next exchange, which may be several steps away.
        waits = self.stop_flag.is_between_steps and not self.is_alone
        return CLOSE_SECS - 1.0 if waits else super()._let_go_secs()

    def _ask_to_end(self) -> None:
        if self._calls is None or self.is_alone:
            super()._ask_to_end()
        else:
            self._stop.request_at_once(self.sess)

    def _may_be_interrupted(self, interruption: Interruption) -> bool:
        # A step that has not begun is made too, since the others wait in it.
        return super()._may_be_interrupted(interruption) if self.is_alone else interruption.is_late


def _kinds(variables: Sequence[tf.Variable]) -> dict[str, str]:
    trained = {variable.op.name for variable in tf.trainable_variables()}
    return {
        v.op.name: f"{v.dtype.base_dtype.name} {v.shape}{', trained' if v.op.name in trained else ''}"
        for v in variables
    }
