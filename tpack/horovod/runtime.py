"""``init`` and what it starts: the place of this process, its server, its control channel, and its process sets."""

import atexit
import functools
import os
import sys
import threading
import uuid
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS
from tpack.errors import ClusterError, ConfigError
from tpack.horovod import sessions
from tpack.horovod.negotiation import StallWatch, TextExchange
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.cpu_share import share_of_cores
from tpack.multi_worker.cluster.peer_failure import GRACE_SECS, exit_code, last_words
from tpack.multi_worker.cluster.peers import Peers, connect_peers, described
from tpack.multi_worker.cluster.resolver import own_place
from tpack.multi_worker.servers import let_calls_to_lost_servers_fail, start_server
from tpack.multi_worker.trainer import WaitLimits
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tfutils.sesscreate import get_default_sess_config
from tpack.tower.devices import provide_cpu_devices
from tpack.utils import logger
from tpack.utils.launch_env import note_own_exchange
from tpack.utils.process_exit import exit_now
from tpack.utils.validation import check_arguments, check_count, check_number, mismatch

_STALL_WARNING, _STALL_END = "HOROVOD_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
_WARN_SECS = 60.0
_THE_END = "hvd.shutdown() or the end of the program"


class Runtime:
    """The state of this process between `init` and `shutdown`.

    Args:
        member: the place of this process.
        waits: the timeouts.

    Attributes:
        group: all workers.
        peers: the control channel.
        has_join: whether a worker may leave the others to themselves.

    Raises:
        ClusterError: The workers do not find each other.
    """

    def __init__(self, member: ClusterMember, waits: WaitLimits) -> None:
        self.member = member
        self.peers: Peers = connect_peers(member, **vars(waits))
        self._sets: dict[int, ProcessSet] = {}
        self._next_id = 1
        self._exchanges: dict[int, TextExchange] = {}
        self._num_runs = 0
        self.has_join = False
        self._lock = threading.Lock()
        run = self.peers.broadcast("the name of the run", uuid.uuid4().hex)
        self.group = WorkerGroup(("",), 0, run) if self.is_alone else WorkerGroup.of_member(member, run)
        self._groups = {0: self.group}
        global_process_set.register(0, range(self.group.size), self.group.rank)
        if not self.is_alone:
            self._start(waits)

    @property
    def is_alone(self) -> bool:
        """Whether this is the only process."""
        return self.peers.size == 1

    def _start(self, waits: WaitLimits) -> None:
        config = get_default_sess_config()
        provide_cpu_devices(config, tf.Graph(), share_of_cores(self.peers))
        self.server = start_server(self.member, config=config)
        self.peers.barrier("the start of their servers")
        let_calls_to_lost_servers_fail()
        self._watch = StallWatch(
            self.group,
            self.server,
            warn_secs=_secs_of(_STALL_WARNING) or _WARN_SECS,
            end_secs=_secs_of(_STALL_END) or waits.step_timeout_secs,
        )
        self.peers.barrier("the start of collective operations")
        self._watch.start()
        self._sessions = sessions.Interception(self)
        self.peers.on_lost(self._end_runs)

    # Process sets.

    def add_process_set(self, process_set: ProcessSet) -> None:
        """Register a set; all workers call it.

        Raises:
            ConfigError: It is registered, it has a rank that does not exist, or another set has the same ranks.
            ClusterError: Another worker registers another set.
        """
        ranks = process_set.ranks
        if process_set.process_set_id is not None or ranks is None:
            raise ConfigError(mismatch("add_process_set", "process_set", process_set, "a set that is not registered"))
        if ranks[-1] >= self.group.size:
            raise ConfigError(mismatch("add_process_set", "ranks", ranks, f"ranks below {self.group.size}"))
        if any(each.ranks == ranks for each in (global_process_set, *self._sets.values())):
            raise ConfigError(mismatch("add_process_set", "ranks", ranks, "a set that is not registered already"))
        told = self.peers.gather("a process set that is added", ranks)
        if any(each != ranks for each in told):
            raise ClusterError(f"add_process_set got {told} from the workers: expected the same ranks in all of them")
        number, self._next_id = self._next_id, self._next_id + 1
        process_set.register(number, None, self.group.rank)
        self._sets[number] = process_set
        if self.group.rank in ranks:
            machines = [self.group.machines[rank] for rank in ranks] if self.group.machines else []
            tasks = [self.group.tasks[rank] for rank in ranks]
            run = f"{self.group.run}/set{number}"
            self._groups[number] = WorkerGroup(tasks, ranks.index(self.group.rank), run, machines)

    def remove_process_set(self, process_set: ProcessSet) -> bool:
        """Remove a set; all workers call it. Returns whether it was registered."""
        number = process_set.process_set_id
        if not number or self._sets.get(number) is not process_set:
            return False
        self.peers.barrier(f"process set {number} is removed")
        del self._sets[number]
        self._groups.pop(number, None)
        process_set.register(None, None, None)
        return True

    def group_of(self, process_set: ProcessSet) -> WorkerGroup:
        """Return the workers of a set, of which this one is.

        Raises:
            ConfigError: It is not registered, or this worker is not one of it.
        """
        number = process_set.process_set_id
        if number is None or (number and self._sets.get(number) is not process_set):
            raise ConfigError(f"{process_set} is not registered: use add_process_set, or init(process_sets=)")
        if number not in self._groups:
            raise ConfigError(f"{process_set} got worker {self.group.rank}: expected one of the set; use included()")
        return self._groups[number]

    def exchange_of(self, number: int) -> TextExchange:
        """Return the exchange of texts of a set, by its number."""
        with self._lock:
            if number not in self._exchanges:
                self._exchanges[number] = TextExchange(self._groups[number], self.server)
            return self._exchanges[number]

    def ranks_of(self, number: int) -> list[int]:
        """Return the ranks of a set, by its number."""
        ranks = global_process_set.ranks if number == 0 else self._sets[number].ranks
        return ranks or []

    @property
    def process_sets(self) -> dict[int, list[int]]:
        """The ranks of all registered sets, by number."""
        return {number: self.ranks_of(number) for number in (0, *self._sets)}

    @property
    def watch(self) -> StallWatch:
        """The watch over runs; there are several workers."""
        return self._watch

    # Runs, and their end.

    def note_join(self) -> None:
        """Let all workers meet before each run, since one of them may join."""
        self.has_join = True

    def note_run(self) -> None:
        """Count a run in which all workers take part, to find one that ends before the others."""
        with self._lock:
            self._num_runs += 1
            self.peers.note_step(self._num_runs)

    def _end_runs(self, error: ClusterError) -> None:
        """Break off all runs after a loss, and the process if they do not end in time; called in a thread."""
        logger.error(f"Cluster: {error}.")
        for exchange in list(self._exchanges.values()):
            exchange.close()
        if not self._sessions.break_off(GRACE_SECS):
            logger.error(f"A run did not return within {GRACE_SECS:g} s: the process is ended.")
            exit_now(exit_code(error, self.group.rank), last_words(error, self.group.rank))

    def close(self, failure: BaseException | None = None) -> None:
        """Leave the job; worker 0 waits until all others have left.

        Args:
            failure: the error by which this process ends, for the others.

        Raises:
            ClusterError: Another worker was lost, or is in a run for which it waits.
        """
        if failure is not None:
            self.peers.report_failure(described(failure))
        for process_set in self._sets.values():
            process_set.register(None, None, None)
        note_own_exchange(False)
        try:
            if not self.is_alone:
                self._sessions.uninstall()
                self._watch.close(_THE_END)
                if failure is None:
                    # Others may still take what this process's server has for them.
                    self.peers.barrier(_THE_END, timeout_secs=LONG_WAIT_SECS)
        finally:
            self.peers.close()


_started: list[Runtime] = []
"""The state of this process, if there is one."""


@check_arguments
def init(
    comm: Sequence[int] | None = None,
    process_sets: Sequence[ProcessSet] | None = None,
    *,
    waits: WaitLimits | None = None,
) -> None:
    """Join the workers of this job; a process that no launcher started is alone.

    From then on ``tf.Session()`` of this process is a session on its server, so that collective operations work in it.
    Another call changes nothing.

    Args:
        comm: the ranks of all workers; subsets are process sets.
        process_sets: sets to register, the same in all workers.
        waits: the timeouts; ``HOROVOD_STALL_CHECK_TIME_SECONDS`` and ``HOROVOD_STALL_SHUTDOWN_TIME_SECONDS`` say when a
            run that waits is named in the log, and when it fails.

    Raises:
        ConfigError: ``comm`` lacks workers, a variable of the environment is malformed, or this process is a parameter
            server.
        ClusterError: The workers do not find each other.
    """
    if _started:
        return
    member = own_place()
    if member.rank is None:
        raise ConfigError(f"init got {member}: expected a process that trains")
    if comm is not None and sorted(comm) != list(range(member.num_workers)):
        expected = f"None or the ranks of all {member.num_workers} workers"
        raise ConfigError(mismatch("init", "comm", comm, expected, "process_sets=[ProcessSet(ranks)] for a subset"))
    _started.append(Runtime(member, waits or WaitLimits()))
    if not current().is_alone:
        note_own_exchange()
        # Estimators would begin a cluster of their own by it.
        os.environ.pop("TF_CONFIG", None)
    _close_at_exit()
    for process_set in process_sets or ():
        current().add_process_set(process_set)


def shutdown() -> None:
    """Leave the job. All workers call it, or end; worker 0 waits until the others have."""
    while _started:
        _started.pop().close()


@functools.cache
def _close_at_exit() -> None:
    """Leave the job when the interpreter exits, with the error that ended the program, if there is one."""

    def close() -> None:
        while _started:
            leaving = _started.pop()
            try:
                leaving.close(getattr(sys, "last_value", None))
            except ClusterError as error:
                rank = leaving.group.rank
                exit_now(exit_code(error, rank), last_words(error, rank))

    atexit.register(close)


def current() -> Runtime:
    """Return the state of this process.

    Raises:
        ConfigError: ``init`` was not called.
    """
    if not _started:
        raise ConfigError("tpack.horovod is not initialized: call hvd.init() first")
    return _started[0]


def is_initialized() -> bool:
    """Tell whether `init` was called, and `shutdown` was not."""
    return bool(_started)


def rank() -> int:
    """Return the rank of this process among all."""
    return current().group.rank


def size() -> int:
    """Return the number of processes."""
    return current().group.size


def local_rank() -> int:
    """Return the number of this process among those of its machine."""
    return current().member.local_rank


def local_size() -> int:
    """Return the number of processes of this machine."""
    return current().member.local_size


def cross_rank() -> int:
    """Return the number of this machine among those that have a process of this local rank."""
    return _same_local_rank().index(current().group.rank)


def cross_size() -> int:
    """Return the number of machines that have a process of this local rank."""
    return len(_same_local_rank())


@check_arguments
def rank_op(name: str | None = None) -> tf.Tensor:
    """Return the rank of this process as a tensor."""
    return tf.constant(current().group.rank, name=name or "rank")


@check_arguments
def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return the number of processes of a set as a tensor."""
    check_count("size_op", "process_set_id", process_set_id, 0)
    return tf.constant(len(current().ranks_of(process_set_id)), name=name or "size")


@check_arguments
def local_rank_op(name: str | None = None) -> tf.Tensor:
    """Return the number of this process among those of its machine as a tensor."""
    return tf.constant(current().member.local_rank, name=name or "local_rank")


@check_arguments
def local_size_op(name: str | None = None) -> tf.Tensor:
    """Return the number of processes of this machine as a tensor."""
    return tf.constant(current().member.local_size, name=name or "local_size")


@check_arguments
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return a tensor of 1 if this process belongs to a set, else of 0."""
    check_count("process_set_included_op", "process_set_id", process_set_id, 0)
    is_included = current().group.rank in current().ranks_of(process_set_id)
    return tf.constant(int(is_included), name=name or "process_set_included")


def is_homogeneous() -> bool:
    """Tell whether all machines have as many processes."""
    machines = current().group.machines
    return len({list(machines).count(machine) for machine in machines}) <= 1


def _same_local_rank() -> list[int]:
    """Return the ranks that have this process's place on their machines."""
    group = current().group
    machines = list(group.machines) or [0]
    places = [machines[:each].count(machine) for each, machine in enumerate(machines)]
    return [each for each, place in enumerate(places) if place == places[group.rank]]


@check_arguments
def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a process set and return it; all workers call it, in the same order.

    Args:
        process_set: the set, or its ranks.

    Raises:
        ConfigError, ClusterError: As `Runtime.add_process_set`.
    """
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    current().add_process_set(made)
    return made


@check_arguments
def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set; all workers call it. Returns whether it was registered; that of all workers stays."""
    return current().remove_process_set(process_set)


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return the ranks of all registered process sets, by number."""
    return current().process_sets


def _secs_of(name: str) -> float | None:
    """Return a positive number of seconds from the environment; None if it is not set, or 0."""
    text = os.environ.get(name, "")
    try:
        secs = float(text or 0)
    except ValueError:
        raise ConfigError(f"{name} got {text[:40]!r}: expected a number of seconds") from None
    return check_number("The environment", name, secs, 0) or None
