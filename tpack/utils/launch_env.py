"""Environment variables of launchers, parsed in one place: the rank of this process and the number of processes.

The order is ``TF_CONFIG``, the variables of torchrun (``RANK``, ``WORLD_SIZE``), Slurm, Open MPI, other MPIs and
horovodrun; the first that is set counts. Later ones may describe an outer launcher, such as a step of Slurm in which
``tpack launch`` was started; but two that describe the same processes must agree. No MPI library is needed.
"""

import hashlib
import importlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpack.errors import ConfigError
from tpack.utils.addresses import LOOPBACK, derived_port, expand_hosts, join_address, parse_address
from tpack.utils.tf_config import WORKING_JOBS, ClusterTask, read_tf_config
from tpack.utils.validation import check_arguments, check_count

OWN_GPUS_VARIABLE = "TPACK_OWN_GPUS"
"""Set to 1 by tpack's launchers where each process sees only GPUs of its own; Slurm has variables for that."""
MEMORY_VARIABLE = "TPACK_MEMORY_DIR"
"""A directory in the memory of this machine, which lives as long as the job: set by ``tpack launch``."""
# The processes of MPICH, Intel MPI and Open MPI that start the others of a machine.
_MPI_LAUNCHER = re.compile(r"hydra|pmi_proxy|mpirun|mpiexec|orted|prte")
# Ways to bind GPUs (--gpu-bind) after which each task sees only its own.
_BINDS_OWN_GPUS = ("single:", "per_task:", "map:", "mask:", "map_gpu:", "mask_gpu:", "verbose,single:")


def memory_directory(log_dir: str) -> str | None:
    """Return where checkpoints of the training in a log directory are kept in memory; None without a launcher."""
    directory = os.environ.get(MEMORY_VARIABLE)
    if not directory:
        return None
    return os.path.join(directory, hashlib.sha256(os.path.abspath(log_dir).encode()).hexdigest()[:16])


@check_arguments
@dataclass(frozen=True)
class ClusterRank:
    """One of several workers that know their rank, and an address at which the first distributes all addresses.

    Args:
        rank: the rank of this worker.
        size: the number of workers.
        master: ``host:port`` at which the worker with rank 0 will listen. Needed if there are several.
        local_rank: the rank among the workers of this machine; None is found out.
        local_size: the number of workers of this machine; None is found out.
        token: a name of the job, different in other jobs that may use the same address, the same in all workers.

    Raises:
        ConfigError: A number is out of range, or the address is malformed.
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
            parse_address("ClusterRank", "master", self.master)
        if self.local_size is not None:
            check_count(self, "local_size", self.local_size, 1, self.size)
        if self.local_rank is not None:
            check_count(self, "local_rank", self.local_rank, 0, (self.local_size or self.size) - 1)


@dataclass(frozen=True)
class _Launcher:
    """The variables of a launcher that numbers processes."""

    source: str
    rank: str
    size: str
    local_rank: str
    local_size: str = ""

    def is_set(self, environment: Mapping[str, str]) -> bool:
        """Tell whether the launcher has started this process."""
        return self.rank in environment and self.size in environment


_TORCHRUN = _Launcher("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# Only srun sets the number of tasks of a step. SLURM_NTASKS and SLURM_PROCID are also set in a batch script, which is
# one process however many were asked for.
_SLURM = _Launcher(
    "Slurm (SLURM_PROCID and SLURM_STEP_NUM_TASKS)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"
)
_OPEN_MPI = _Launcher(
    "Open MPI (OMPI_COMM_WORLD_RANK and _SIZE)",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
)
_HOROVODRUN = _Launcher(
    "horovodrun (HOROVOD_RANK and HOROVOD_SIZE)",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
)
_PMI = _Launcher("an MPI (PMI_RANK and PMI_SIZE)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


@dataclass(frozen=True)
class LauncherInfo:
    """The place of this process among those that a launcher has started.

    Attributes:
        place: the task or rank of this process; None if it is alone.
        source: the origin of the place, in words.
        variable: the environment variable with the number of processes.
        has_own_gpus: whether the launcher shows this process only GPUs of its own.
        incomplete: the error in variables that were ignored because another one is missing.
    """

    place: ClusterTask | ClusterRank | None
    source: str
    variable: str = ""
    has_own_gpus: bool = False
    incomplete: str = ""

    @property
    def size(self) -> int:
        """The number of processes."""
        return 1 if self.place is None else self.place.size


def read_launch_env(environment: Mapping[str, str]) -> LauncherInfo:
    """Return the place that the environment gives to this process; nothing is connected to.

    Raises:
        ConfigError: A variable cannot be read, or two contradict each other. The message shows them.
    """
    task = read_tf_config(environment).task
    # Slurm's variables may describe an outer step, whose GPUs several tasks share.
    sees_own_gpus = environment.get(OWN_GPUS_VARIABLE) == "1"
    listed = None if task is None else LauncherInfo(task, "TF_CONFIG", "TF_CONFIG", sees_own_gpus)
    ranked = _from_torchrun(environment) if _TORCHRUN.is_set(environment) else None
    if task is not None and ranked is not None and isinstance(ranked.place, ClusterRank):
        _check_task_has_rank(task, ranked.place)
    scheduled = [_from_slurm(environment)] if _SLURM.is_set(environment) else []
    scheduled += [_from_mpi(environment, mpi) for mpi in (_OPEN_MPI, _PMI, _HOROVODRUN) if mpi.is_set(environment)]
    # A step of one task, in which mpirun was started, for example, says nothing if there are several processes.
    several = [each for each in scheduled if each.size > 1]
    _check_same_rank(several)
    found = next((each for each in (listed, ranked, *several, *scheduled) if each is not None), None)
    return found or LauncherInfo(None, "the environment", incomplete=_incomplete(environment))


def worker_place(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank of this process among the workers, and their number; (0, 1) for a process that is alone.

    A parameter server and an evaluator are not workers, and count as alone.

    Raises:
        ConfigError: As `read_launch_env`.
    """
    place = read_launch_env(environment).place
    if not isinstance(place, ClusterTask):
        return (0, 1) if place is None else (place.rank, place.size)
    if place.job not in WORKING_JOBS:
        return 0, 1
    return place.rank, sum(len(place.cluster.get(job, ())) for job in WORKING_JOBS)


def log_suffix(environment: Mapping[str, str]) -> str:
    """Return a suffix that tells the log directory of this process from those of the others of its job.

    The first worker has none, and so has a process whose variables cannot be read: `read_launch_env` reports them.
    """
    try:
        task = read_tf_config(environment).task
        if task is not None and sum(map(len, task.cluster.values())) > 1:
            is_worker = task.job in WORKING_JOBS
            return f"-{task.job}{task.index}" if not is_worker else f"-rank{task.rank}" if task.rank else ""
        for launcher in (_TORCHRUN, _SLURM, _OPEN_MPI, _PMI, _HOROVODRUN):
            size = _number(environment, launcher.size, 1) if launcher.is_set(environment) else 1
            if size > 1:
                rank = _number(environment, launcher.rank, 0, size - 1)
                return f"-rank{rank}" if rank else ""
    except ConfigError:
        return ""
    return ""


_exchanging: set[int] = set()


def note_own_exchange(is_there: bool = True) -> None:
    """Note whether the script of this process exchanges gradients itself, as with `tpack.horovod`."""
    _exchanging.discard(os.getpid())
    if is_there:
        _exchanging.add(os.getpid())


def check_only_process(owner: str) -> None:
    """Raise an error in one of several processes that a launcher started to train together.

    ``owner`` is a trainer of one machine: each process would train a whole model, and overwrite the others' files;
    unless the script exchanges gradients itself (`note_own_exchange`).

    Raises:
        ConfigError: There are several processes, or a variable cannot be read.
    """
    found = read_launch_env(os.environ)
    if found.size > 1 and os.getpid() not in _exchanging:
        environment, names = dict(os.environ), []
        while (each := read_launch_env(environment)).size > 1:
            names.append(each.variable)
            del environment[each.variable]
        raise ConfigError(
            f"{owner} trains on the devices of one machine, and {found.variable} says that this is one of {found.size} "
            "processes: each would train alone. Start one process; or, if each is to train a model of its own, in a "
            f"directory of its own, unset the variables (env {' '.join(f'-u {name}' for name in names)} python ...)"
        )


def launch_token(environment: Mapping[str, str]) -> str:
    """Return a name of this attempt of ``tpack launch``, different for each; "" if another launcher was used."""
    launch = environment.get("TPACK_LAUNCH_ID", "")
    return f"tpack launch {launch}, attempt {environment.get('TPACK_RESTART_COUNT', '0')}" if launch else ""


def control_address(environment: Mapping[str, str], workers: Sequence[str]) -> str:
    """Return the address of worker 0's control channel in a cluster of workers whose addresses are all known.

    ``MASTER_ADDR`` and ``MASTER_PORT`` come first; then the host of worker 0, at a port derived from the addresses.
    """
    parsed = [parse_address("ClusterTask", "an address of a worker", address) for address in workers]
    taken = {port for _, port in parsed}
    runs = (f"{number} {' '.join(workers)}" for number in itertools.count())
    run = next(run for run in runs if derived_port(run) not in taken)
    return _master(environment, parsed[0][0], run) or join_address(parsed[0][0], derived_port(run))


def _from_torchrun(environment: Mapping[str, str]) -> LauncherInfo:
    # An agent of torchrun may listen at MASTER_PORT itself, and then sets this variable.
    is_taken = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    token = f"torchrun {run}" if run else launch_token(environment)
    return _ranked(environment, _TORCHRUN, master=_master(environment, later_by=int(is_taken)), token=token)


def _from_slurm(environment: Mapping[str, str]) -> LauncherInfo:
    job = environment.get("SLURM_JOB_ID")
    token = f"slurm {job}.{environment.get('SLURM_STEP_ID', '')}" if job else ""
    nodelist = next((name for name in ("SLURM_STEP_NODELIST", "SLURM_NODELIST") if environment.get(name)), None)
    hosts = expand_hosts(environment[nodelist], nodelist) if nodelist else ()
    master = _master(environment, LOOPBACK if len(hosts) == 1 else next(iter(hosts), None), token)
    local_size = _slurm_local_size(environment, hosts)
    return _ranked(environment, _SLURM, master=master, token=token, local_size=local_size)


def _slurm_local_size(environment: Mapping[str, str], hosts: tuple[str, ...]) -> int | None:
    """Return the number of tasks of the step on this machine, from text such as ``2(x3),1``."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    text = environment.get(name)
    if text is None or "SLURM_NODEID" not in environment:
        return None
    counts: list[int] = []
    for entry in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,5})\))?", entry, re.ASCII)
        if found is None:
            raise ConfigError(f"{name} got {text[:100]!r}: expected numbers of tasks such as 2(x3),1")
        counts += [int(found[1])] * int(found[2] or 1)
    node = _number(environment, "SLURM_NODEID", 0, len(counts) - 1)
    if hosts and len(hosts) != len(counts):
        raise ConfigError(
            f"{name} got {text[:100]!r}: expected as many machines as SLURM_STEP_NODELIST has, {len(hosts)}"
        )
    return counts[node]


def _from_mpi(environment: Mapping[str, str], launcher: _Launcher) -> LauncherInfo:
    is_on_one_machine = environment.get(launcher.local_size) == environment.get(launcher.size)
    run = ""
    if launcher is _OPEN_MPI:
        run = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid") or ""
    if launcher is _HOROVODRUN:
        # The address of the launcher's own server, which is another one for each job.
        run = " ".join(environment.get(f"HOROVOD_GLOO_RENDEZVOUS_{part}", "") for part in ("ADDR", "PORT")).strip()
    if not run and is_on_one_machine:
        # Loaded here: every process of tpack reads the environment, and few need this.
        parents = importlib.import_module("psutil").Process().parents()
        starts = (f"{each.pid} {each.create_time()}" for each in parents if _MPI_LAUNCHER.search(each.name()))
        run = next(starts, "")
    master = _master(environment, LOOPBACK if is_on_one_machine else None, run)
    return _ranked(environment, launcher, master=master, token=f"mpi {run}" if run else "")


def _ranked(
    environment: Mapping[str, str],
    launcher: _Launcher,
    *,
    master: str | None,
    token: str,
    local_size: int | None = None,
) -> LauncherInfo:
    size = _number(environment, launcher.size, 1)
    rank = _number(environment, launcher.rank, 0, size - 1)
    if environment.get(launcher.local_size):
        local_size = _number(environment, launcher.local_size, 1, size)
    local_rank = None
    if environment.get(launcher.local_rank):
        local_rank = _number(environment, launcher.local_rank, 0, (local_size or size) - 1)
    has_own_gpus = (
        environment.get(OWN_GPUS_VARIABLE) == "1"
        or environment.get("SLURM_GPU_BIND", "").startswith(_BINDS_OWN_GPUS)
        or not {"SLURM_NTASKS_PER_GPU", "SLURM_GPUS_PER_TASK"}.isdisjoint(environment)
        or "gpu" in environment.get("SLURM_TRES_PER_TASK", "")
    )
    place = ClusterRank(rank, size, master, local_rank, local_size, token)
    return LauncherInfo(place, launcher.source, launcher.size, has_own_gpus)


def _number(environment: Mapping[str, str], name: str, low: int, high: int | None = None) -> int:
    text = environment[name].strip()
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < low or (high is not None and int(text) > high):
        raise ConfigError(f"{name} got {environment[name][:40]!r}: expected an integer {limits}")
    return int(text)


def _master(environment: Mapping[str, str], host: str | None = None, run: str = "", *, later_by: int = 0) -> str | None:
    """Return the address at which the first process distributes all addresses.

    Args:
        environment: ``MASTER_ADDR`` and ``MASTER_PORT`` come first.
        host: the host otherwise.
        run: a name of this run, from which a port is derived otherwise.
        later_by: added to ``MASTER_PORT``.
    """
    host = environment.get("MASTER_ADDR") or host
    port = environment.get("MASTER_PORT") or (str(derived_port(run)) if run else "")
    if environment.get("MASTER_PORT"):
        port = str(parse_address("The environment", "MASTER_PORT", f"host:{port}")[1] + later_by)
    if host is None or not port:
        return None
    address = f"[{host.strip('[]')}]:{port}" if ":" in host else f"{host.strip('[]')}:{port}"
    parse_address("The environment", "MASTER_ADDR with MASTER_PORT", address)
    return address


def _check_task_has_rank(task: ClusterTask, ranked: ClusterRank) -> None:
    """Refuse a ``RANK`` or ``WORLD_SIZE`` of another place than that of ``TF_CONFIG``."""
    # Launchers count an evaluator or do not; TF_CONFIG may leave it out.
    sizes = {task.size, task.size + 1, task.size - len(task.cluster.get("evaluator", ()))}
    if ranked.size not in sizes or (task.rank != ranked.rank and task.job != "evaluator"):
        raise ConfigError(
            f"TF_CONFIG got {task.job} {task.index}, process {task.rank} of {task.size}, and RANK and WORLD_SIZE got "
            f"{ranked.rank} of {ranked.size}: expected the same, or one of the two unset"
        )


def _check_same_rank(found: list[LauncherInfo]) -> None:
    """Refuse variables of schedulers that contradict each other: one describes the parents of this process."""
    seen = [(each, each.place) for each in found if isinstance(each.place, ClusterRank)]
    for (one, first), (other, second) in zip(seen, seen[1:], strict=False):
        if (first.rank, first.size) != (second.rank, second.size):
            raise ConfigError(
                f"{one.source} got process {first.rank} of {first.size}, and {other.source} got {second.rank} of "
                f"{second.size}: expected the same; unset the wrong one, by env -u {one.variable} or "
                f"env -u {other.variable}"
            )


def _incomplete(environment: Mapping[str, str]) -> str:
    """Return an error if a launcher has set only one variable of two, and that describes several processes."""
    for name, other, of_one in (("WORLD_SIZE", "RANK", "1"), ("RANK", "WORLD_SIZE", "0")):
        if environment.get(name, of_one).strip() not in ("", of_one) and other not in environment:
            return f"{name} got {environment[name][:40]!r} and {other} is missing: expected both"
    return ""
