"""The place of an Estimator's process in a cluster, as ``TF_CONFIG`` gives it and a `RunConfig` tells it.

The words are those of TensorFlow 1: the job of the first worker may be called ``chief`` or ``master``, the evaluator
stands outside of the cluster, and a cluster without parameter servers has none.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember, ClusterTask
from tpack.utils.validation import shown

_CHIEFS = ("chief", "master")
_ORDER = ("chief", "master", "worker", "ps")
"""The order in which tasks are numbered over all jobs."""
_SCHEME = "grpc://"


@dataclass(frozen=True)
class ClusterPlace:
    """One process among those that ``TF_CONFIG`` names; alone, unless it names a cluster.

    Attributes:
        cluster: {job: addresses}; empty for a process that is alone, and for an evaluator.
        task_type: the job of this process.
        task_id: its number in the job.
        task: the same for `resolve_cluster`; None for a process that no cluster was named to.
        master: where sessions connect to.
        evaluation_master: where those of an evaluation do.
        service: what ``TF_CONFIG`` has under this name, for whoever started the processes.
        model_dir: the directory of the model, where ``TF_CONFIG`` names one.
    """

    cluster: Mapping[str, Sequence[str]] = field(default_factory=dict)
    task_type: str = "worker"
    task_id: int = 0
    task: ClusterTask | None = None
    master: str = ""
    evaluation_master: str = ""
    service: Any = None
    model_dir: str | None = None

    @property
    def num_ps_replicas(self) -> int:
        """How many processes only hold variables."""
        return len(self.cluster.get("ps", ()))

    @property
    def num_worker_replicas(self) -> int:
        """How many processes train; an evaluator knows of none."""
        if not self.cluster:
            return 0 if self.task_type == "evaluator" else 1
        return sum(len(self.cluster.get(job, ())) for job in (*_CHIEFS, "worker"))

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints."""
        if not self.cluster:
            return self.task_type == "worker"
        first = next(job for job in _ORDER if self.cluster.get(job))
        return (self.task_type, self.task_id) == (first, 0)

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this process over all jobs; None for an evaluator."""
        if not self.cluster:
            return None if self.task_type == "evaluator" else self.task_id
        before = _ORDER[: _ORDER.index(self.task_type)]
        return sum(len(self.cluster.get(job, ())) for job in before) + self.task_id

    @property
    def has_others(self) -> bool:
        """Whether there are other processes to train with, or variables on other ones."""
        return sum(len(self.cluster.get(job, ())) for job in _ORDER) > 1

    @property
    def device_filters(self) -> tuple[str, ...]:
        """The parts of a cluster that this process has to do with, where variables are on parameter servers."""
        own = {
            "chief": ("/job:ps", "/job:chief"),
            "master": ("/job:ps", "/job:master"),
            "worker": ("/job:ps", f"/job:worker/task:{self.task_id}"),
            "ps": ("/job:ps", "/job:worker", "/job:chief", "/job:master"),
        }
        return own.get(self.task_type, ()) if self.cluster else ()


def place_of_member(member: ClusterMember) -> ClusterPlace:
    """Return the place that `resolve_cluster` has found.

    Args:
        member: the process.
    """
    task = ClusterTask(member.cluster, member.job, member.index) if member.cluster else None
    if member.job == "evaluator":
        return ClusterPlace(task_type=member.job, task=task)
    trains = {job: list(addresses) for job, addresses in member.cluster.items()}
    return ClusterPlace(trains, member.job, member.index, task, _master(trains, member.job, member.index))


def place_from_environment(environment: Mapping[str, str]) -> ClusterPlace:
    """Return the place that ``TF_CONFIG`` gives to this process.

    Args:
        environment: the variables of the process.

    Raises:
        ConfigError: The variable cannot be read or contradicts itself; the message shows the field.

    Source:
        ``tf.estimator.RunConfig`` of TensorFlow 1.15, which in addition wants one job to be called chief.
    """
    config = _read(environment.get("TF_CONFIG", ""))
    cluster, task = config.get("cluster") or {}, config.get("task") or {}
    told: dict[str, Any] = {
        "service": config.get("service"),
        "model_dir": config.get("model_dir") or None,
        "master": str(config.get("session_master", "")),
        "evaluation_master": str(config.get("eval_session_master", "")),
    }
    if not cluster:
        return _alone(task, told)
    kind, number = task.get("type"), task.get("index")
    if kind is None and len(cluster) == 1 and sum(map(len, cluster.values())) == 1:
        kind, number = next(iter(cluster)), 0
    if not isinstance(kind, str) or number is None:
        missing = "type" if not isinstance(kind, str) else "index"
        raise ConfigError(f"TF_CONFIG has a cluster and no {missing} of this process's task: {shown(task)}")
    # In text, numbers may be text.
    index = int(number) if isinstance(number, str) and number.isdigit() else number
    try:
        checked = ClusterTask(cluster, kind, index)
    except ConfigError as error:
        raise ConfigError(f"TF_CONFIG cannot be read: {error}") from error
    if kind == "evaluator":
        return ClusterPlace(task_type=kind, task=checked, **{**told, "master": ""})
    plain = {job: list(addresses) for job, addresses in cluster.items()}
    return ClusterPlace(
        plain,
        kind,
        index,
        checked,
        **{**told, "master": told["master"] or _master(plain, kind, index), "evaluation_master": ""},
    )


def _read(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"TF_CONFIG cannot be read, it is no JSON: {error}") from error
    for name, value in [("", config), *((name, config.get(name) or {}) for name in _PARTS if isinstance(config, dict))]:
        if not isinstance(value, dict):
            raise ConfigError(f"TF_CONFIG cannot be read: {name or 'it'} is {shown(value)}, expected a JSON object")
    return dict(config)


_PARTS = ("cluster", "task")


def _alone(task: Mapping[str, Any], told: dict[str, Any]) -> ClusterPlace:
    kind = task.get("type", "worker")
    if kind != "worker":
        raise ConfigError(f"TF_CONFIG has no cluster, and its task's type is {shown(kind)}: expected worker")
    return ClusterPlace(**told)


def _master(cluster: Mapping[str, Sequence[str]], job: str, index: int) -> str:
    is_alone = sum(map(len, cluster.values())) <= 1
    return "" if is_alone else f"{_SCHEME}{cluster[job][index]}"
