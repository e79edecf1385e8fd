"""``TF_CONFIG``, and the task of a cluster that it describes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.addresses import parse_address
from tpack.utils.validation import check_arguments, check_count, shown

JOBS = ("chief", "worker", "ps", "evaluator")
"""The jobs of a cluster, in the order in which their tasks are numbered."""
WORKING_JOBS = ("chief", "worker")
"""The jobs that train."""
_EXAMPLE = '{"cluster": {"worker": ["host:port"]}, "task": {"type": "worker", "index": 0}}'


@check_arguments
@dataclass(frozen=True)
class ClusterTask:
    """One task of a cluster whose addresses are all known.

    Args:
        cluster: {job: addresses of its tasks}, each ``host:port``. A ``master`` is a chief. An evaluator may be left
            out.
        job: the job of this process.
        index: its number in the job.

    Raises:
        ConfigError: The task does not exist, or the cluster contradicts itself: two tasks with one address, more than
            one chief or evaluator, or no worker.

    Example:
        ``ClusterTask({"worker": ["node1:5000", "node2:5000"]}, "worker", 1)``
    """

    cluster: Mapping[str, Sequence[str]]
    job: str
    index: int

    def __post_init__(self) -> None:
        checked = _checked_task("ClusterTask", ("job", "index"), self.cluster, self.job, self.index)
        # The class is frozen, so that the values stay checked.
        for name, value in zip(("cluster", "job", "index"), checked, strict=True):
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """The number of processes, this one included."""
        return sum(map(len, self.cluster.values())) + int(self.job not in self.cluster)

    @property
    def rank(self) -> int:
        """The number of the task over all jobs, in the order of `JOBS`."""
        return sum(len(self.cluster.get(job, ())) for job in JOBS[: JOBS.index(self.job)]) + self.index


def _checked_task(
    owner: str, names: tuple[str, str], cluster: Mapping[str, Sequence[str]], job: str, index: object
) -> tuple[dict[str, tuple[str, ...]], str, int]:
    """Return cluster, job and index of a task, with the jobs in order and ``chief`` for ``master``.

    Args:
        owner: the class or variable that got them, for the messages.
        names: those of job and index there.
        cluster: {job: addresses}.
        job: that of the task.
        index: its number in the job.
    """
    found = _checked_cluster(owner, cluster)
    kind = "chief" if job == "master" else job
    if kind not in JOBS:
        raise ConfigError(f"{owner} got {names[0]}={shown(job)}: expected one of {', '.join(JOBS)}")
    number = check_count(owner, names[1], index, 0)
    count = len(found.get(kind, ())) or int(kind == "evaluator")
    if not count:
        raise ConfigError(f"{owner} got {names[0]}={shown(job)}: expected a job of the cluster, {', '.join(found)}")
    if number >= count:
        expected = "0" if count == 1 else f"0 to {count - 1}"
        raise ConfigError(f"{owner} got {names[1]}={number}: expected {expected}, since the cluster has {count} {kind}")
    return found, kind, number


def _checked_cluster(owner: str, cluster: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    if "chief" in cluster and "master" in cluster:
        raise ConfigError(f"{owner} got a cluster with chief and master, which are the same: expected one of the two")
    renamed = {"chief" if job == "master" else job: addresses for job, addresses in cluster.items()}
    unknown = [job for job in renamed if job not in JOBS]
    if unknown:
        raise ConfigError(f"{owner} got cluster.{unknown[0]}: expected the jobs {', '.join(JOBS)}")
    found = {job: tuple(renamed[job]) for job in JOBS if job in renamed and len(renamed[job])}
    for job, addresses in found.items():
        if isinstance(renamed[job], str):
            raise WrongTypeError(f"{owner} got cluster.{job}={shown(renamed[job])}: expected a list of addresses")
        if job in ("chief", "evaluator") and len(addresses) > 1:
            raise ConfigError(f"{owner} got cluster.{job} with {len(addresses)} addresses: expected one")
    if not any(job in found for job in WORKING_JOBS):
        raise ConfigError(f"{owner} got a cluster of {', '.join(found) or 'nothing'}: expected a worker in it")
    _check_addresses(owner, found)
    return found


def _check_addresses(owner: str, cluster: Mapping[str, Sequence[str]]) -> None:
    owners: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            name = f"cluster.{job}[{index}]"
            parse_address(owner, name, address)
            other = owners.setdefault(address, name)
            if other != name:
                raise ConfigError(f"{owner} got {other} and {name}={address!r}: expected an address for each task")


@dataclass(frozen=True)
class TFConfig:
    """Content of ``TF_CONFIG``; nothing where the variable is not set.

    Attributes:
        cluster: {job: addresses}, with the names of jobs as they are there; empty for a process that is alone.
        job: the job of this process, likewise; None where it is not named.
        index: its number in the job.
        task: the same, checked; None without a cluster.
        other: the other entries.
    """

    cluster: Mapping[str, Sequence[str]] = field(default_factory=dict)
    job: str | None = None
    index: int = 0
    task: ClusterTask | None = None
    other: Mapping[str, Any] = field(default_factory=dict)


def read_tf_config(environment: Mapping[str, str]) -> TFConfig:
    """Return the content of ``TF_CONFIG``.

    The addresses of a job are a list, or stand under their numbers. Numbers may be text. The task may be left out where
    the cluster has only one, and its index where its job has only one.

    Raises:
        ConfigError: It cannot be read or contradicts itself; the message shows the entry.
    """
    config = _json_object("", _json_of(environment.get("TF_CONFIG", "")))
    entries = {name: _json_object(f"{name}=", config.get(name) or {}) for name in ("cluster", "task")}
    cluster = {job: _listed_addresses(job, value) for job, value in entries["cluster"].items()}
    job, index = entries["task"].get("type"), entries["task"].get("index")
    other = {name: value for name, value in config.items() if name not in entries}
    if not any(cluster.values()):
        return TFConfig(job=job, other=other)
    if job is None and sum(map(len, cluster.values())) == 1:
        job = next(each for each, addresses in cluster.items() if addresses)
    if not isinstance(job, str):
        raise ConfigError(f"TF_CONFIG got task.type={shown(job)}: expected the job of this process, as in {_EXAMPLE}")
    if index is None and len(cluster.get(job, ())) <= 1:
        index = 0
    if isinstance(index, str) and re.fullmatch(r"\d{1,9}", index, re.ASCII):
        index = int(index)
    task = ClusterTask(*_checked_task("TF_CONFIG", ("task.type", "task.index"), cluster, job, index))
    # A master is a chief, whichever of the two names the cluster has.
    named = (
        job if job in cluster or task.job != "chief" else next(each for each in ("chief", "master") if each in cluster)
    )
    return TFConfig(cluster, named, task.index, task, other)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"TF_CONFIG got {shown(text)}: expected JSON such as {_EXAMPLE} ({error})") from error


def _json_object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"TF_CONFIG got {name}{shown(value)}: expected a JSON object, as in {_EXAMPLE}")
    return value


def _listed_addresses(job: str, value: Any) -> list[Any]:
    """Return a job's addresses, which are a list, or stand under their numbers."""
    if isinstance(value, dict) and sorted(value) == sorted(map(str, range(len(value)))):
        return [value[str(number)] for number in range(len(value))]
    if not isinstance(value, list):
        keys = f" with the numbers {', '.join(sorted(value)[:10])}" if isinstance(value, dict) else f"={shown(value)}"
        raise ConfigError(
            f"TF_CONFIG got cluster.{job}{keys}: expected a list of addresses, or one for each number from 0 on"
        )
    return value
