"""Training of an Estimator in several processes.

Each worker builds a graph of its own. With variables on parameter servers, all graphs refer to the same ones: the chief
initialises them, and the others wait for that. Under a `CollectiveAllReduceStrategy` each worker has variables of its
own, and begins with copies of the chief's. Workers are connected by `Peers`: a lost one ends all, by an error that
names it.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.multi_worker import MultiWorkerStrategy
from tpack.distribute.strategies import ParameterServerStrategy
from tpack.errors import ClusterError, ConfigError, PeerLostError
from tpack.estimator.run_config import RunConfig
from tpack.multi_worker.all_reduce import copy_from_worker
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.consistency import check_consistency, compare_values, program
from tpack.multi_worker.cluster.cpu_share import share_of_cores
from tpack.multi_worker.cluster.peers import Peers, connect_peers, ended_by_loss
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.optimizer_fingerprint import fingerprint_of_updates, updated_by_optimizers
from tpack.multi_worker.parameter_server import ServerPlacement
from tpack.multi_worker.servers import LOST_CONNECTION, WorkerSessionCreator, let_calls_to_lost_servers_fail
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tfutils.sesscreate import get_default_sess_config
from tpack.tower.devices import list_gpus
from tpack.utils import logger

_LONG_SECS = 86400.0
"""The timeout for a worker that saves, evaluates or has more data; a lost one is detected long before."""
_END_SECS = 120.0
"""The timeout of a worker without data for others that exchange gradients with it, which cannot go on."""
_LAST_SECS = 5.0
"""The timeout for the other workers after an interruption."""
_CLOSE_SECS = 5.0
"""The timeout of closing a session: TensorFlow waits in it for lost processes without a limit."""


class ClusterRun:
    """One training in several processes, in one of the workers; made by `join_cluster`.

    Args:
        config: options and strategy.
        member: the place of this process.
        peers: the workers.
        run: the name of the run, the same in all workers.

    Attributes:
        is_chief: whether this process initialises and saves.
    """

    def __init__(self, config: RunConfig, member: ClusterMember, peers: Peers, run: str) -> None:
        self.is_chief = member.is_chief
        self._config = config
        self._member = member
        self._peers = peers
        strategy = config.train_distribute
        # Whether variables are shared, on parameter servers; else each worker has its own.
        self._is_shared = strategy is None or isinstance(strategy, ParameterServerStrategy)
        self._placement = ServerPlacement(member, run) if strategy is None else None
        self._group = WorkerGroup.of_member(member, run)
        self._num_cores: int | None = None
        self._copy: tf.Operation | None = None
        self._own_values: tf.Operation | None = None
        self._alike: list[tf.Variable] = []
        if isinstance(strategy, MultiWorkerStrategy):
            strategy.configure(config.session_config)
            strategy.join_workers(member, run)

    def building(self) -> AbstractContextManager[None]:
        """Return the block in which the model is built."""
        return nullcontext() if self._placement is None else self._placement.scope()

    def follow_chief(self, topic: str, value: Any) -> Any:
        """Return the chief's value.

        Args:
            topic: the name of the exchange.
            value: the chief's; that of others is ignored.
        """
        return self._peers.broadcast(topic, value)

    def agree(self, fields: dict[str, Any]) -> None:
        """Compare settings of all workers.

        Args:
            fields: {name: value}.

        Raises:
            ClusterError: They differ.
        """
        check_consistency(self._peers, fields)

    def prepare(self) -> None:
        """Compare programs, variables and optimizers of the workers, and add initialisation to the current graph.

        Raises:
            ClusterError: The workers have other variables, other rates of updates, or other programs.
        """
        self._num_cores = share_of_cores(self._peers)
        variables = tf.global_variables()
        strategy = self._config.train_distribute
        self.agree(
            {
                **program(),
                "the strategy": "none" if strategy is None else repr(strategy),
                "variables": {each.op.name: f"{each.shape} {each.dtype.base_dtype.name}" for each in variables},
                "the order of variables": [each.op.name for each in variables],
                "the order of gradients": exchanged_here(),
                "the optimizer": fingerprint_of_updates(tf.get_default_graph()),
            }
        )
        parts = [part for each in variables for part in getattr(each, "components", [each])]
        if self._is_shared:
            own = [each for each in parts if tf.DeviceSpec.from_string(each.device).job is None]
            self._own_values = tf.variables_initializer(own, name="init_own_variables")
        else:
            self._copy = copy_from_worker(self._group, parts)
            alike = updated_by_optimizers(tf.get_default_graph())
            self._alike = [part for part in parts if part.op.name in alike]

    def session_creator(self, config: tf.ConfigProto | None) -> WorkerSessionCreator:
        """Return the creator of sessions on the server of this process.

        Args:
            config: the settings of the session; None for tpack's own.
        """
        settings = tf.ConfigProto()
        settings.CopyFrom(get_default_sess_config() if config is None else config)
        if self._is_shared and not settings.device_filters:
            settings.device_filters.extend(["/job:ps", f"/job:{self._member.job}/task:{self._member.index}"])
        return WorkerSessionCreator(
            self._member, settings, num_cores=self._num_cores, before_connecting=self._wait_for_servers
        )

    def _wait_for_servers(self) -> None:
        self._peers.barrier("the start of their servers")
        let_calls_to_lost_servers_fail()

    def initialize(self, session: tf.Session, give_values: Callable[[], None]) -> None:
        """Initialise variables, with the values of the chief.

        Args:
            session: the session.
            give_values: initialises or restores all variables.
        """
        if self.is_chief or not self._is_shared:
            give_values()
        if self._is_shared:
            self._peers.barrier("the first values of variables")
            if not self.is_chief:
                session.run(self._own_values)
        else:
            session.run(self._copy)

    @contextmanager
    def ended_with_others(self, session: tf.Session) -> Iterator[None]:
        """Run a block that ends when another process is lost, whatever it waits for.

        Args:
            session: is closed then.

        Raises:
            PeerLostError: A process was lost, or failed.
        """
        with ended_by_loss(self._peers, session.close, lost_connection=LOST_CONNECTION):
            yield

    def close(self, session: tf.Session) -> None:
        """Close a session, or abandon it if that takes too long.

        Args:
            session: it is not used any more.
        """
        closing = threading.Thread(target=session.close, name="closes the session", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECS)

    @property
    def has_replicas(self) -> bool:
        """Whether workers have variables of their own, which they compare before a checkpoint."""
        return not self._is_shared

    def compare_values(self, session: tf.Session, step: int) -> None:
        """Compare the trained variables and slots of all workers, before the chief saves them.

        Raises:
            ClusterError: They differ; the message names the variables.
        """
        try:
            compare_values(self._peers, session, self._alike, f"checksums of what is saved of step {step}")
        except PeerLostError:
            raise
        except ClusterError as error:
            # The sums of repeated rows have no fixed order on GPUs.
            if not list_gpus():
                raise
            logger.warning(str(error))

    def compare_last_values(self, session: tf.Session, step: int) -> bool:
        """Compare them after an interruption, which may be that of some workers alone; return whether to save."""
        try:
            steps = self._peers.gather("the interrupted step", step, timeout_secs=_LAST_SECS)
            if len(set(steps)) > 1:
                logger.warning(f"Step {step} is saved without a comparison: the workers are at steps {steps}.")
                return True
            self.compare_values(session, step)
        except PeerLostError as error:
            logger.warning(f"Step {step} is saved without a comparison of the workers: {error}")
        except ClusterError as error:
            logger.error(f"Step {step} is not saved: {error}")
            return False
        return True

    def begin_step(self, step: int) -> None:
        """Set the current step of the control channel.

        Args:
            step: its number.
        """
        if not self._is_shared:
            self._peers.note_step(step)

    def meet_at_end(self, step: int, last_step: int | None) -> None:
        """Wait until all workers have made their steps, as others may need this one's server until then.

        Args:
            step: the last one of this worker.
            last_step: the one to end at; None for the end of the data.

        Raises:
            ClusterError: Others are not done, and cannot go on without this one.
        """
        if self._is_shared:
            self._peers.barrier("the end of training", timeout_secs=_LONG_SECS)
            return
        ends_early = last_step is None or step < last_step
        # The step is that of all, and in the error where the data of some end first.
        topic = f"the end of training after step {step}"
        self._peers.barrier(topic, timeout_secs=_END_SECS if ends_early else _LONG_SECS)


@contextmanager
def join_cluster(config: RunConfig) -> Iterator[ClusterRun | None]:
    """Train in a block together with the other workers, if there are any.

    Args:
        config: has the place of this process.

    Raises:
        ConfigError: This process does not train, or several processes have no strategy.
        ClusterError: Workers are missing, or one was lost.
    """
    if not config.place.has_others and config.place.task_type != "evaluator":
        yield None
        return
    member = config.member()
    _check_trains(config, member)
    with connect_peers(member, timeout_secs=config.session_creation_timeout_secs) as peers:
        yield ClusterRun(config, member, peers, peers.broadcast("the name of the run", uuid.uuid4().hex))


def _check_trains(config: RunConfig, member: ClusterMember) -> None:
    if member.rank is None:
        raise ConfigError(f"Estimator.train got {member}: expected a process that trains; use train_and_evaluate")
    strategy = config.train_distribute
    if strategy is not None and not isinstance(strategy, MultiWorkerStrategy):
        raise ConfigError(
            f"Estimator.train got train_distribute={strategy!r}: expected a CollectiveAllReduceStrategy "
            f"or a ParameterServerStrategy ({member})"
        )
    if strategy is None and not member.cluster.get("ps"):
        raise ConfigError(
            f"Estimator.train got several workers without a strategy: expected parameter servers, or a "
            f"CollectiveAllReduceStrategy as train_distribute ({member})"
        )
