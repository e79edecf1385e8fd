"""What a process of a cluster knows of itself and of the others: the answer to "who am I".

A cluster has workers, which train; perhaps parameter servers, which keep variables; and perhaps an evaluator, which
stands beside it. The jobs are called as in TensorFlow: ``chief`` (also ``master``), ``worker``, ``ps`` and
``evaluator``. The first worker has the duties of a chief, whether or not the cluster has a job of that name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpack.errors import ConfigError, WrongTypeError
from tpack.multi_worker.cluster.ports import PortReservation, parse_address
from tpack.multi_worker.control.handshake import RendezvousOptions
from tpack.utils.validation import check_arguments, check_count, shown

JOBS = ("chief", "worker", "ps", "evaluator")
"""The jobs of a cluster, in the order in which their tasks are numbered over all of them."""

_WORKING = ("chief", "worker")


@check_arguments
@dataclass(frozen=True)
class ClusterTask:
    """One task of a cluster whose addresses are all known.

    Args:
        cluster: {job: addresses of its tasks}, each ``host:port``. A ``master`` is a chief. An evaluator need not be
            there.
        job: the job of this process.
        index: its number in the job.

    Raises:
        ConfigError: There is no such task, or the cluster contradicts itself: an address that two tasks have, or more
            than one chief or evaluator, or no worker.

    Example:
        ``ClusterTask({"worker": ["node1:5000", "node2:5000"]}, "worker", 1)``
    """

    cluster: Mapping[str, Sequence[str]]
    job: str
    index: int

    def __post_init__(self) -> None:
        cluster = _checked_cluster(self.cluster)
        job = "chief" if self.job == "master" else self.job
        if job not in JOBS:
            raise ConfigError(f"the task's type is {shown(self.job)}: expected one of {', '.join(JOBS)}")
        number = check_count("a cluster's task", "index", self.index, 0)
        count = len(cluster.get(job, ())) or int(job == "evaluator")
        if not count:
            raise ConfigError(f"the task's type is {job!r}, and the cluster has only {', '.join(cluster)}")
        if number >= count:
            wanted = "0" if count == 1 else f"0 to {count - 1}"
            raise ConfigError(f"the task's index is {number}: expected {wanted}, since there are {count} of {job!r}")
        # The class is frozen, so that what was checked stays so.
        for name, value in (("cluster", cluster), ("job", job), ("index", number)):
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """How many processes there are, this one included."""
        listed = sum(map(len, self.cluster.values()))
        return listed + int(self.job not in self.cluster)

    @property
    def rank(self) -> int:
        """The number of the task over all jobs, in the order of `JOBS`."""
        return sum(len(self.cluster.get(job, ())) for job in JOBS[: JOBS.index(self.job)]) + self.index


@check_arguments
@dataclass(frozen=True)
class ClusterRank:
    """One of several workers that know their number, and an address at which the first of them gives out the others'.

    Args:
        rank: the number of this worker.
        size: how many there are.
        master: ``host:port`` of the worker with rank 0, where nobody listens yet. Needed if there are several.
        local_rank: the number among the workers of this machine; None is found out.
        local_size: how many workers this machine has; None is found out.
        token: what sets this job apart from others that may use the same address; the same in all workers.

    Raises:
        ConfigError: A number is out of range, or the address is none.
    """

    rank: int
    size: int
    master: str | None = None
    local_rank: int | None = None
    local_size: int | None = None
    token: str = ""

    def __post_init__(self) -> None:
        check_count(self, "size", self.size)
        check_count(self, "rank", self.rank, 0, self.size - 1)
        if self.master is not None:
            parse_address(self.master, "ClusterRank.master")
        if self.local_size is not None:
            check_count(self, "local_size", self.local_size, 1, self.size)
        if self.local_rank is not None:
            check_count(self, "local_rank", self.local_rank, 0, (self.local_size or self.size) - 1)


@dataclass(frozen=True)
class ClusterMember:
    """A process and its place in the cluster; made by `resolve_cluster`.

    Attributes:
        cluster: {job: addresses}; empty for a process that is alone.
        job: the job of this process.
        index: its number in the job.
        local_rank: its number among the processes of its machine.
        local_size: how many processes its machine has.
        source: where all this was found.
        has_own_gpus: whether the launcher shows this process only GPUs that no other process is to use.
        reservation: what keeps the port of this process free for it, where tpack chose the port.
        meeting: where worker 0 listens for the others, beside TensorFlow; None for a process that is alone.
    """

    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    job: str = "worker"
    index: int = 0
    local_rank: int = 0
    local_size: int = 1
    source: str = "nothing"
    has_own_gpus: bool = False
    reservation: PortReservation | None = field(default=None, compare=False, repr=False)
    meeting: RendezvousOptions | None = field(default=None, compare=False, repr=False)

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of those that train, the chief first; empty for a process that is alone."""
        return tuple(address for job in _WORKING for address in self.cluster.get(job, ()))

    @property
    def num_workers(self) -> int:
        """How many processes train."""
        return max(1, len(self.workers))

    @property
    def rank(self) -> int | None:
        """The number of this process among those that train; None if it is not one of them."""
        if self.job not in _WORKING:
            return None
        return self.index + (len(self.cluster.get("chief", ())) if self.job == "worker" else 0)

    @property
    def is_chief(self) -> bool:
        """Whether this process does what one process does for all: it writes checkpoints and statistics."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process: no other worker, no parameter server, no evaluator."""
        return self.job in _WORKING and sum(map(len, self.cluster.values())) <= 1

    @property
    def address(self) -> str | None:
        """Where the others find this process; None if they never do."""
        addresses = self.cluster.get(self.job, ())
        return addresses[self.index] if self.index < len(addresses) else None

    def gpus(self, num_visible: int) -> tuple[int, ...]:
        """Deal the GPUs that processes of one machine see out to them.

        Args:
            num_visible: how many GPUs this process sees.

        Returns:
            The numbers of those that this process is to use: all of them if it is the only one on its machine, or if
            its launcher has dealt them out already.

        Raises:
            ConfigError: They cannot be dealt out evenly.
        """
        check_count(self, "num_visible", num_visible, 0)
        if self.has_own_gpus or self.local_size == 1:
            return tuple(range(num_visible))
        share, rest = divmod(num_visible, self.local_size)
        if rest:
            raise ConfigError(
                f"{num_visible} GPUs are visible to each of the {self.local_size} processes of this machine, which "
                "cannot share them evenly: set CUDA_VISIBLE_DEVICES for each, or start another number of processes"
            )
        return tuple(range(self.local_rank * share, (self.local_rank + 1) * share))

    def tf_config(self) -> str:
        """Return the same as text for ``TF_CONFIG``."""
        return json.dumps({"cluster": self.cluster, "task": {"type": self.job, "index": self.index}})

    def __str__(self) -> str:
        if self.is_alone:
            return f"this process is the only one, as {self.source} says"
        others = f"{self.num_workers} workers" if self.num_workers > 1 else "1 worker"
        others += f" and {len(self.cluster['ps'])} ps" if self.cluster.get("ps") else ""
        name = self.job if self.rank is None else "worker"
        number = self.index if self.rank is None else self.rank
        place = f" at {self.address}" if self.address else ""
        return f"this process is {name} {number} of a cluster of {others}{place}, as {self.source} says"


def _checked_cluster(cluster: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return a cluster with its jobs in order, each address once."""
    if "chief" in cluster and "master" in cluster:
        raise ConfigError("the cluster has a chief and a master, which are the same: expected one of the two")
    named = {"chief" if job == "master" else job: addresses for job, addresses in cluster.items()}
    unknown = [job for job in named if job not in JOBS]
    if unknown:
        raise ConfigError(f"cluster.{unknown[0]} is no job that is known: expected {', '.join(JOBS)}")
    found = {job: _checked_addresses(job, named[job]) for job in JOBS if job in named and len(named[job])}
    for job in ("chief", "evaluator"):
        if len(found.get(job, ())) > 1:
            raise ConfigError(f"cluster.{job} has {len(found[job])} addresses: expected one")
    if not any(job in found for job in _WORKING):
        raise ConfigError(f"the cluster has no worker, only {', '.join(found) or 'nothing'}")
    _check_no_address_twice(found)
    return found


def _checked_addresses(job: str, addresses: Sequence[str]) -> tuple[str, ...]:
    if isinstance(addresses, str):
        raise WrongTypeError(f"cluster.{job} is {shown(addresses)}: expected a list of addresses")
    for index, address in enumerate(addresses):
        parse_address(address, f"cluster.{job}[{index}]")
    return tuple(addresses)


def _check_no_address_twice(cluster: Mapping[str, tuple[str, ...]]) -> None:
    owners: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            name = f"cluster.{job}[{index}]"
            if address in owners:
                raise ConfigError(f"{owners[address]} and {name} are both {address}: expected an address for each task")
            owners[address] = name
