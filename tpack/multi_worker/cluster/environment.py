"""What the environment says of a process's place among others, whoever has started it.

Asked, in this order, are ``TF_CONFIG``, the variables that torchrun has made common (``RANK``, ``WORLD_SIZE``),
Slurm's, Open MPI's and those of other MPIs. The first that says something counts. What is further back may be about an
outer launcher, such as a step of Slurm in which ``tpack launch`` was started, and is left aside; but two that speak of
the same processes must say the same.

An MPI library is not needed: ``mpirun`` is a way to start processes, and its variables are all that is read.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterRank, ClusterTask
from tpack.multi_worker.cluster.ports import LOOPBACK, join_address, parse_address, port_made_from
from tpack.multi_worker.cluster.slurm import OWN_GPUS_VARIABLE, expand_hosts, has_own_gpus
from tpack.utils.validation import shown

_EXAMPLE = '{"cluster": {"worker": ["host:port"]}, "task": {"type": "worker", "index": 0}}'
# What starts the processes of MPICH, Intel MPI and Open MPI on each machine.
_MPI_LAUNCHER = re.compile(r"hydra|pmi_proxy|mpirun|mpiexec|orted|prte")


@dataclass(frozen=True)
class LauncherInfo:
    """What was found.

    Attributes:
        place: the task or rank of this process; None if there is only one.
        source: where it was found, in words.
        variable: the environment variable that says how many processes there are.
        has_own_gpus: whether the launcher shows this process only GPUs of its own.
        incomplete: what is wrong with variables that were left aside because they are not complete.
    """

    place: ClusterTask | ClusterRank | None
    source: str
    variable: str = ""
    has_own_gpus: bool = False
    incomplete: str = ""

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self.place is None else self.place.size


def find_in_environment(environment: Mapping[str, str]) -> LauncherInfo:
    """Return what the environment says; nothing is connected to.

    Args:
        environment: the variables of the process.

    Raises:
        ConfigError: A variable cannot be read, or two contradict each other. The message shows them.
    """
    named = [_from_tf_config(environment), _from_torchrun(environment)]
    _check_tf_config_has_rank(*named)
    scheduled = [
        each for each in (_from_slurm(environment), _from_open_mpi(environment), _from_pmi(environment)) if each
    ]
    # A step of one task in which mpirun was started, for example, is only where the others are.
    several = [each for each in scheduled if each.size > 1]
    _check_same_rank(several)
    found = next((each for each in (*named, *several, *scheduled) if each is not None), None)
    if found is not None:
        return found
    return LauncherInfo(None, "the environment", incomplete=_incomplete(environment))


def _from_tf_config(environment: Mapping[str, str]) -> LauncherInfo | None:
    text = environment.get("TF_CONFIG", "")
    try:
        config = json.loads(text) if text.strip() else {}
        cluster = {job: _addresses(job, told) for job, told in (config.get("cluster") or {}).items()}
        task = config.get("task") or {}
        kind, index = task.get("type"), task.get("index", 0)
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"TF_CONFIG cannot be read: expected JSON such as {_EXAMPLE}") from error
    if not any(cluster.values()):
        return None
    if kind is None and sum(map(len, cluster.values())) == 1:
        kind = next(job for job, addresses in cluster.items() if addresses)
    if not isinstance(kind, str) or isinstance(index, bool) or not re.fullmatch(r"\d+", str(index), re.ASCII):
        raise ConfigError(
            f"TF_CONFIG cannot be read: its task's type is {shown(kind)} and its index {shown(index)}; expected JSON "
            f"such as {_EXAMPLE}"
        )
    try:
        # Slurm's variables may speak of an outer step, whose GPUs several tasks have in common.
        sees_own_gpus = environment.get(OWN_GPUS_VARIABLE) == "1"
        return LauncherInfo(ClusterTask(cluster, kind, int(index)), "TF_CONFIG", "TF_CONFIG", sees_own_gpus)
    except ConfigError as error:
        raise ConfigError(f"TF_CONFIG cannot be read: {error}") from error


def _addresses(job: str, told: Any) -> list[Any]:
    """Return a job's addresses, which stand in a list, or under their numbers."""
    if isinstance(told, list):
        return told
    numbers = sorted(int(number) for number in told)
    if numbers != list(range(len(told))):
        raise ConfigError(
            f"TF_CONFIG cannot be read: cluster.{job} has the numbers {numbers[:10]}: expected all from 0 on"
        )
    return [told[str(number)] for number in numbers]


def _from_torchrun(environment: Mapping[str, str]) -> LauncherInfo | None:
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    # An agent of torchrun may listen at MASTER_PORT itself; it says so.
    is_taken = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    return _ranked(
        environment,
        _Names("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        "RANK and WORLD_SIZE",
        master=_master(environment, later_by=int(is_taken)),
        token=f"torchrun {run}" if run else launch_of(environment),
    )


def launch_of(environment: Mapping[str, str]) -> str:
    """Return what sets one attempt of ``tpack launch`` apart from all others, or nothing if it started nothing.

    Args:
        environment: the variables of the process.
    """
    launch = environment.get("TPACK_LAUNCH_ID", "")
    return f"tpack launch {launch}, attempt {environment.get('TPACK_RESTART_COUNT', '0')}" if launch else ""


def meeting_address(environment: Mapping[str, str], workers: Sequence[str]) -> str:
    """Return where worker 0 listens beside TensorFlow in a cluster whose addresses are all known.

    Args:
        environment: its ``MASTER_ADDR`` and ``MASTER_PORT`` come first. Otherwise it is the host of worker 0, at a port
            that is made from the addresses.
        workers: the addresses of the workers.
    """
    host = parse_address(workers[0], "the address of worker 0")[0]
    # A port that a task of the cluster has is none that is made from names of more than one cluster.
    taken = {parse_address(address, "an address")[1] for address in workers}
    runs = (f"{number} {' '.join(workers)}" for number in itertools.count())
    run = next(run for run in runs if port_made_from(run) not in taken)
    found = _master(environment, host, run)
    return found or join_address(host, port_made_from(run))


def _from_slurm(environment: Mapping[str, str]) -> LauncherInfo | None:
    # Only srun sets the number of tasks of a step. SLURM_NTASKS and SLURM_PROCID are also set in a batch script, which
    # is one process whatever was asked for.
    if "SLURM_PROCID" not in environment or "SLURM_STEP_NUM_TASKS" not in environment:
        return None
    job = environment.get("SLURM_JOB_ID")
    token = f"slurm {job}.{environment.get('SLURM_STEP_ID', '')}" if job else ""
    nodelist = next((name for name in ("SLURM_STEP_NODELIST", "SLURM_NODELIST") if environment.get(name)), None)
    hosts = expand_hosts(environment[nodelist], nodelist) if nodelist else ()
    local_size = _slurm_local_size(environment, hosts)
    host = LOOPBACK if len(hosts) == 1 else next(iter(hosts), None)
    return _ranked(
        environment,
        _Names("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
        "Slurm (SLURM_PROCID and SLURM_STEP_NUM_TASKS)",
        master=_master(environment, host, token),
        token=token,
        local_size=local_size,
    )


def _slurm_local_size(environment: Mapping[str, str], hosts: tuple[str, ...]) -> int | None:
    """Return how many tasks of the step this machine has, from text such as ``2(x3),1``."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    text = environment.get(name)
    if text is None or "SLURM_NODEID" not in environment:
        return None
    counts: list[int] = []
    for entry in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,5})\))?", entry, re.ASCII)
        if found is None:
            raise ConfigError(f"{name} is {text[:100]!r}: expected numbers of tasks such as 2(x3),1")
        counts += [int(found[1])] * int(found[2] or 1)
    node = _number(environment, "SLURM_NODEID", 0, len(counts) - 1)
    if hosts and len(hosts) != len(counts):
        raise ConfigError(
            f"{name} is {text[:100]!r} and SLURM_STEP_NODELIST names {len(hosts)} machines: expected as many"
        )
    return counts[node]


def _from_open_mpi(environment: Mapping[str, str]) -> LauncherInfo | None:
    if "OMPI_COMM_WORLD_RANK" not in environment or "OMPI_COMM_WORLD_SIZE" not in environment:
        return None
    names = _Names(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )
    run = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid") or ""
    return _from_mpi(environment, names, "Open MPI (OMPI_COMM_WORLD_RANK and _SIZE)", run)


def _from_pmi(environment: Mapping[str, str]) -> LauncherInfo | None:
    if "PMI_RANK" not in environment or "PMI_SIZE" not in environment:
        return None
    names = _Names("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return _from_mpi(environment, names, "an MPI (PMI_RANK and PMI_SIZE)", "")


def _from_mpi(environment: Mapping[str, str], names: "_Names", source: str, run: str) -> LauncherInfo:
    is_on_one_machine = environment.get(names.local_size) == environment.get(names.size)
    run = run or (_launcher_of_this_process() if is_on_one_machine else "")
    host = LOOPBACK if is_on_one_machine else None
    return _ranked(
        environment, names, source, master=_master(environment, host, run), token=f"mpi {run}" if run else ""
    )


def _launcher_of_this_process() -> str:
    """Return what tells this run of ``mpirun`` from others on this machine, or nothing if that is not found."""
    for parent in psutil.Process().parents():
        if _MPI_LAUNCHER.search(parent.name()):
            return f"{parent.pid} {parent.create_time()}"
    return ""


@dataclass(frozen=True)
class _Names:
    """The variables of a launcher."""

    rank: str
    size: str
    local_rank: str = ""
    local_size: str = ""


def _ranked(
    environment: Mapping[str, str],
    names: _Names,
    source: str,
    *,
    master: str | None,
    token: str,
    local_size: int | None = None,
) -> LauncherInfo:
    size = _number(environment, names.size, 1)
    rank = _number(environment, names.rank, 0, size - 1)
    if environment.get(names.local_size):
        local_size = _number(environment, names.local_size, 1, size)
    local_rank = None
    if environment.get(names.local_rank):
        local_rank = _number(environment, names.local_rank, 0, (local_size or size) - 1)
    place = ClusterRank(rank, size, master, local_rank, local_size, token)
    return LauncherInfo(place, source, names.size, has_own_gpus(environment))


def _number(environment: Mapping[str, str], name: str, low: int, high: int | None = None) -> int:
    text = environment[name].strip()
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < low or (high is not None and int(text) > high):
        raise ConfigError(f"{name} is {environment[name][:40]!r}: expected a number of processes, or of one, {limits}")
    return int(text)


def _master(environment: Mapping[str, str], host: str | None = None, run: str = "", *, later_by: int = 0) -> str | None:
    """Return where the first process gives out the addresses.

    Args:
        environment: its ``MASTER_ADDR`` and ``MASTER_PORT`` come first.
        host: the host otherwise.
        run: what sets this run apart, from which a port is made otherwise.
        later_by: by how much the port is later than ``MASTER_PORT``.
    """
    host = environment.get("MASTER_ADDR") or host
    if environment.get("MASTER_PORT"):
        port = parse_address(f"a:{environment['MASTER_PORT']}", "MASTER_PORT, after a host,")[1] + later_by
    elif run:
        port = port_made_from(run)
    else:
        return None
    if host is None:
        return None
    address = join_address(host.strip("[]"), port)
    parse_address(address, "MASTER_ADDR with MASTER_PORT")
    return address


def _check_tf_config_has_rank(task: LauncherInfo | None, ranked: LauncherInfo | None) -> None:
    """Refuse a ``RANK`` or ``WORLD_SIZE`` that speaks of another place than ``TF_CONFIG``."""
    if task is None or ranked is None or not isinstance(task.place, ClusterTask) or ranked.place is None:
        return
    place = task.place
    # Launchers count an evaluator or do not; TF_CONFIG need not name it.
    sizes = {place.size, place.size + 1, place.size - len(place.cluster.get("evaluator", ()))}
    is_evaluator = place.job == "evaluator"
    if ranked.place.size not in sizes or (place.rank != ranked.place.rank and not is_evaluator):
        raise ConfigError(
            f"TF_CONFIG says that this is {place.job} {place.index}, process {place.rank} of {place.size}, and RANK "
            f"and WORLD_SIZE say {ranked.place.rank} of {ranked.place.size}: expected the same, or one of the two unset"
        )


def _check_same_rank(found: list[LauncherInfo]) -> None:
    """Refuse schedulers' variables that do not agree: one speaks of processes that have started this one."""
    seen = [(each, each.place) for each in found if isinstance(each.place, ClusterRank)]
    for (one, first), (other, second) in zip(seen, seen[1:], strict=False):
        if (first.rank, first.size) != (second.rank, second.size):
            raise ConfigError(
                f"{one.source} says that this is process {first.rank} of {first.size}, and {other.source} that it is "
                f"{second.rank} of {second.size}: expected the same; start it without the wrong one, "
                f"by env -u {one.variable} or env -u {other.variable}"
            )


def _incomplete(environment: Mapping[str, str]) -> str:
    """Say what a launcher has left out, if the one half that it set says that there are several processes."""
    if environment.get("WORLD_SIZE", "1").strip() not in ("", "1") and "RANK" not in environment:
        return f"WORLD_SIZE is {environment['WORLD_SIZE'][:40]!r} and RANK is missing: expected both"
    if environment.get("RANK", "0").strip() not in ("", "0") and "WORLD_SIZE" not in environment:
        return f"RANK is {environment['RANK'][:40]!r} and WORLD_SIZE is missing: expected both"
    return ""
