"""Processes of a job, their machines, and the environment variables of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.utils.addresses import LOOPBACK, is_loopback, join_address

_HOST = re.compile(r"(?:(?P<user>[\w.][\w.-]*)@)?(?P<name>[A-Za-z0-9][\w.-]*)(?::(?P<slots>\d{1,5}))?", re.ASCII)


@dataclass(frozen=True)
class Host:
    """A machine.

    Attributes:
        name: its address for the others.
        slots: the number of workers that it takes; None is as many as there are.
        login: the argument of ``ssh``, or the name of an actor; None is this machine.
    """

    name: str = LOOPBACK
    slots: int | None = None
    login: str | None = None


@dataclass(frozen=True)
class Process:
    """A process of the job.

    Attributes:
        rank: its number over all jobs.
        job: ``chief``, ``worker``, ``ps`` or ``evaluator``.
        index: its number in the job.
        host: its machine.
        local_rank: its number on its machine.
    """

    rank: int
    job: str
    index: int
    host: Host
    local_rank: int

    @property
    def is_worker(self) -> bool:
        """Whether it trains."""
        return self.job in ("chief", "worker")

    @property
    def label(self) -> str:
        """The prefix of each line of its output."""
        return str(self.rank) if self.is_worker else f"{self.rank}:{self.job}"

    def __str__(self) -> str:
        name = f"worker {self.rank}" if self.is_worker else f"{self.job} {self.index}"
        return f"rank {self.rank} ({name} on {self.host.name})"


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Parse ``a:4,user@b:4``: machines and the number of workers of each, 1 by default.

    Raises:
        ConfigError: It is malformed, or has a machine twice, or one that the others cannot reach by that name.
    """
    hosts = []
    for entry in text.split(","):
        found = _HOST.fullmatch(entry.strip())
        if found is None or found["slots"] == "0":
            raise ConfigError(
                f"--hosts got {entry.strip()!r}: expected machines with numbers of workers, such as a:4,b:4"
            )
        user = f"{found['user']}@" if found["user"] else ""
        hosts.append(Host(found["name"], int(found["slots"] or 1), user + found["name"]))
    names = [host.name for host in hosts]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(
            f"--hosts got {min(twice)} more than once: expected each machine once, with all of its workers"
        )
    private = [name for name in names if _is_private(name)]
    if private and len(names) > 1:
        raise ConfigError(f"--hosts got {private[0]}, which is another machine on each: expected its name for all")
    return tuple(hosts)


def place_workers(hosts: Sequence[Host], num_workers: int | None) -> tuple[Host, ...]:
    """Return the machine of each worker; the machines are filled in order.

    Raises:
        ConfigError: They take fewer workers than there are.
    """
    slots = [host for host in hosts for _ in range(host.slots or num_workers or 1)]
    if num_workers is not None and num_workers > len(slots):
        raise ConfigError(f"-n got {num_workers}: expected at most {len(slots)}, the workers of --hosts")
    return tuple(slots[:num_workers])


def make_plan(workers: Sequence[Host], num_ps: int, has_evaluator: bool) -> tuple[Process, ...]:
    """Return the processes of a job: workers, then parameter servers, spread over the machines, then the evaluator.

    The first worker is a chief where there are other jobs, as TensorFlow's estimators expect it.
    """
    hosts = list(dict.fromkeys(workers))
    has_chief = bool(num_ps or has_evaluator)
    named = [("chief", 0)] if has_chief else []
    named += [("worker", index) for index in range(len(workers) - len(named))]
    placed = list(workers)
    named += [("ps", index) for index in range(num_ps)]
    placed += [hosts[index % len(hosts)] for index in range(num_ps)]
    if has_evaluator:
        named.append(("evaluator", 0))
        placed.append(hosts[0])
    return tuple(
        Process(rank, job, index, host, [each.name for each in placed[:rank]].count(host.name))
        for rank, ((job, index), host) in enumerate(zip(named, placed, strict=True))
    )


def environment_of(
    process: Process, plan: Sequence[Process], ports: Mapping[int, int], master_port: int
) -> dict[str, str]:
    """Return the variables with the place of a process."""
    cluster: dict[str, tuple[str, ...]] = {}
    for each in plan:
        if each.job != "evaluator":
            cluster[each.job] = (*cluster.get(each.job, ()), join_address(each.host.name, ports[each.rank]))
    return {
        "RANK": str(process.rank),
        "WORLD_SIZE": str(len(plan)),
        "LOCAL_RANK": str(process.local_rank),
        "LOCAL_WORLD_SIZE": str(sum(each.host.name == process.host.name for each in plan)),
        "MASTER_ADDR": plan[0].host.name,
        "MASTER_PORT": str(master_port),
        "TF_CONFIG": ClusterMember(cluster, process.job, process.index).tf_config(),
    }


def _is_private(name: str) -> bool:
    """Tell whether a name means another machine on each machine."""
    if name == "localhost" or name.startswith("localhost."):
        return True
    try:
        return is_loopback(name)
    except ValueError:
        return False
