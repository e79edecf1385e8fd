"""Processes of a job, their machines, and the environment variables of each."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpack.errors import ConfigError
from tpack.utils.addresses import LOOPBACK, is_loopback, join_address

LONGEST_CLUSTER = 130_000
"""The limit of the addresses of all processes in TF_CONFIG, in characters: Linux has 128 KiB for one variable."""

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
    twice = {name for name, count in Counter(names).items() if count > 1}
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
    processes, on_machine = [], Counter[str]()
    for rank, ((job, index), host) in enumerate(zip(named, placed, strict=True)):
        processes.append(Process(rank, job, index, host, on_machine[host.name]))
        on_machine[host.name] += 1
    return tuple(processes)


def environments_of(plan: Sequence[Process], ports: Mapping[int, int], master_port: int) -> list[dict[str, str]]:
    """Return the variables with the place of each process.

    ``TF_CONFIG`` has the addresses of all, so it is left out of a job of workers alone where no variable can hold it:
    they have their ranks, and meet at the address of the first.

    Raises:
        ConfigError: It is too long, and there are processes that have no other way to find each other.
    """
    cluster: dict[str, list[str]] = {}
    for each in plan:
        if each.job != "evaluator":
            cluster.setdefault(each.job, []).append(join_address(each.host.name, ports[each.rank]))
    on_machine = Counter(each.host.name for each in plan)
    # Encoded once: each process has the same.
    text = json.dumps(cluster)
    is_listed = len(text) <= LONGEST_CLUSTER
    if not is_listed and cluster.keys() != {"worker"}:
        raise ConfigError(
            f"a job of {len(plan)} processes with --ps or --evaluator got a TF_CONFIG of {len(text)} characters: "
            f"expected at most {LONGEST_CLUSTER}, since an environment variable holds no more; use shorter names of "
            "machines, or workers alone"
        )
    environments = []
    for each in plan:
        environment = {
            "RANK": str(each.rank),
            "WORLD_SIZE": str(len(plan)),
            "LOCAL_RANK": str(each.local_rank),
            "LOCAL_WORLD_SIZE": str(on_machine[each.host.name]),
            "MASTER_ADDR": plan[0].host.name,
            "MASTER_PORT": str(master_port),
        }
        if is_listed:
            task = json.dumps({"type": each.job, "index": each.index})
            environment["TF_CONFIG"] = f'{{"cluster": {text}, "task": {task}}}'
        environments.append(environment)
    return environments


def _is_private(name: str) -> bool:
    """Tell whether a name means another machine on each machine."""
    if name == "localhost" or name.startswith("localhost."):
        return True
    try:
        return is_loopback(name)
    except ValueError:
        return False
