"""Training on a Ray cluster by a function that several workers call; for a script, use ``tpack launch --on ray``."""

import json
import os
import pickle
import secrets
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from tpack.cli.launcher.console import Console
from tpack.cli.launcher.job_run import Job
from tpack.cli.launcher.plan import Host
from tpack.cli.launcher.ray_machines import STRATEGIES, TASK_VARIABLE, RayMachines, check_resources, ray_connected
from tpack.cli.launcher.restarts import Restarts, Team
from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.cluster.rendezvous import SECRET_VARIABLE
from tpack.utils.python_child import python_command
from tpack.utils.validation import check_arguments, check_count, check_number

__all__ = ["RayOptions", "RayResult", "launch_on_ray"]

_STATISTICS = "stats.json"


@check_arguments
@dataclass(frozen=True)
class RayOptions:
    """Placement, start and end of workers on Ray.

    Args:
        strategy: the placement on nodes: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD", as Ray calls it.
        min_workers: restart without lost workers, but not with fewer than these; None waits for resources for all.
        start_timeout_secs: the timeout for free resources, and for the machines to answer.
        grace_secs: the time that workers have to end when asked.
        environment: variables for all workers.

    Raises:
        ConfigError: A value is out of range.
    """

    strategy: str = "PACK"
    min_workers: int | None = None
    start_timeout_secs: float = 60.0
    grace_secs: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(f"RayOptions got strategy={self.strategy!r}: expected one of {', '.join(STRATEGIES)}")
        if self.min_workers is not None:
            check_count(self, "min_workers", self.min_workers)
        check_number(self, "start_timeout_secs", self.start_timeout_secs, 0)
        check_number(self, "grace_secs", self.grace_secs, 0)


@dataclass(frozen=True)
class RayResult:
    """Result of a job.

    Attributes:
        values: the results of the function in each worker, by rank.
        metrics: the statistics of the chief's ``stats.json``, a dictionary for each epoch; empty without the file.
        log_dir: the directory of the workers' output.
    """

    values: tuple[Any, ...]
    metrics: tuple[Mapping[str, Any], ...]
    log_dir: str


@check_arguments
def launch_on_ray(
    train_fn: Callable[[], Any],
    num_workers: int,
    *,
    resources_per_worker: Mapping[str, float] | None = None,
    restarts: int = 0,
    log_dir: str | None = None,
    options: RayOptions | None = None,
) -> RayResult:
    """Call a function in several workers on a Ray cluster, and wait for all.

    Each worker is a process beside an actor of its own; the actors are in one placement group. It has the variables of
    `tpack launch`, for trainers such as ``MultiWorkerTrainerReplicated``, and its output is shown with its rank before
    each line. When a worker fails or is lost, all are ended, and restarted up to ``restarts`` times; the function
    should resume from its last checkpoint. It connects to Ray if necessary: to ``RAY_ADDRESS``, the cluster of this
    machine, or to a new one.

    Args:
        train_fn: the function, pickled by ``cloudpickle``. Pass arguments by ``functools.partial``.
        num_workers: the number of workers.
        resources_per_worker: those of each, such as ``{"CPU": 4, "GPU": 1}``; one CPU by default. It sees only the GPUs
            that Ray assigns to it.
        restarts: the number of restarts after failures.
        log_dir: the directory of the workers' output; ``launch_log/`` and the time by default.
        options: placement, start and end.

    Raises:
        ClusterError: A worker failed, and no restart was left: the message has its rank, the failure and its last
            lines. Or resources were not free in time.
        ConfigError: A number is out of range.
        DependencyError: Ray is not installed.

    Example:
        ``launch_on_ray(train, num_workers=4, resources_per_worker={"CPU": 8, "GPU": 1}).metrics[-1]``
    """
    chosen = options or RayOptions()
    resources = check_resources("launch_on_ray", resources_per_worker or {"CPU": 1})
    check_count("launch_on_ray", "num_workers", num_workers)
    check_count("launch_on_ray", "restarts", restarts, 0)
    if chosen.min_workers is not None and chosen.min_workers > num_workers:
        raise ConfigError(
            f"RayOptions got min_workers={chosen.min_workers}: expected at most num_workers, {num_workers}"
        )
    team = Team((Host(),) * num_workers, restarts=restarts, min_workers=chosen.min_workers)
    task = cloudpickle.dumps(train_fn)
    directory = log_dir or os.path.join("launch_log", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    with ray_connected() as ray:
        machines = RayMachines(
            ray, resources, strategy=chosen.strategy, start_secs=chosen.start_timeout_secs, task=task
        )
        job = _job(chosen, machines)
        os.makedirs(directory, exist_ok=True)
        _run(job, team, directory)
    found = [pickle.loads(result) for result in machines.results if result is not None]
    return RayResult(tuple(value for value, _ in found), tuple(found[0][1]), directory)


def _job(options: RayOptions, machines: RayMachines) -> Job:
    environment = {name: value for name, value in os.environ.items() if name.startswith("TPACK_")}
    # The directories of the caller's modules, without installed packages, which nodes have themselves.
    entries = [entry or os.getcwd() for entry in sys.path if isinstance(entry, str)]
    path = os.pathsep.join(entry for entry in entries if not entry.startswith((sys.prefix, sys.base_prefix)))
    environment |= {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **options.environment}
    environment["TPACK_LAUNCH_ID"] = uuid.uuid4().hex
    # Authentication between workers on several nodes.
    environment.setdefault(SECRET_VARIABLE, secrets.token_hex(32))
    command = python_command("tpack.ray", "run_task", path=[])
    return Job(command, ".", environment, machines, options.start_timeout_secs, options.grace_secs)


def _run(job: Job, team: Team, directory: str) -> None:
    console = Console(directory)
    restarts = Restarts(job, team, console)
    try:
        code = restarts.run()
    finally:
        console.close()
    if restarts.last.signum is not None:
        # The signal was for this process.
        signal.raise_signal(restarts.last.signum)
    if code:
        raise ClusterError(f"launch_on_ray: {restarts.failure_text()}")


def run_task() -> None:
    """Call the function of the launcher in a worker, and write its result."""
    path = os.environ[TASK_VARIABLE]
    with open(path, "rb") as file:
        train_fn = pickle.load(file)
    value = train_fn()
    is_chief = os.environ["RANK"] == "0"
    result = cloudpickle.dumps((value, _statistics() if is_chief else []))
    with open(f"{path}.part", "wb") as file:
        file.write(result)
    os.replace(f"{path}.part", f"{path}.result")


def _statistics() -> list[dict[str, Any]]:
    module = sys.modules.get("tpack.utils.logger")
    directory = None if module is None else module.get_logger_dir()
    path = None if directory is None else os.path.join(directory, _STATISTICS)
    if path is None or not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        statistics: list[dict[str, Any]] = json.load(file)
    return statistics
