"""The place of an Estimator's process in a cluster, as ``TF_CONFIG`` gives it and a `RunConfig` shows it.

The terms are those of TensorFlow 1: the job of the first worker may be called ``chief`` or ``master``, and the
evaluator is outside of the cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.utils.launch_env import ClusterTask, read_tf_config
from tpack.utils.validation import shown

_CHIEFS = ("chief", "master")
_ORDER = ("chief", "master", "worker", "ps")
"""The order in which tasks are numbered over all jobs."""
_SCHEME = "grpc://"


@dataclass(frozen=True)
class ClusterPlace:
    """One process of those in ``TF_CONFIG``; alone without a cluster.

    Attributes:
        cluster: {job: addresses}; empty for a process that is alone, and for an evaluator.
        task_type: the job of this process.
        task_id: its number in the job.
        task: the same for `resolve_cluster`; None without a cluster.
        master: the address that sessions connect to.
        evaluation_master: that of evaluation sessions.
        service: the entry of ``TF_CONFIG`` of this name, for the launcher.
        model_dir: the directory of the model, if ``TF_CONFIG`` has one.
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
        """The number of parameter servers."""
        return len(self.cluster.get("ps", ()))

    @property
    def num_worker_replicas(self) -> int:
        """The number of processes that train; 0 in an evaluator."""
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
        """Whether other processes train or hold variables."""
        return sum(len(self.cluster.get(job, ())) for job in _ORDER) > 1

    @property
    def device_filters(self) -> tuple[str, ...]:
        """The tasks that this process connects to, where variables are on parameter servers."""
        own = {
            "chief": ("/job:ps", "/job:chief"),
            "master": ("/job:ps", "/job:master"),
            "worker": ("/job:ps", f"/job:worker/task:{self.task_id}"),
            "ps": ("/job:ps", "/job:worker", "/job:chief", "/job:master"),
        }
        return own.get(self.task_type, ()) if self.cluster else ()


def place_of_member(member: ClusterMember) -> ClusterPlace:
    """Return the place of a member.

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
        ``tf.estimator.RunConfig`` of TensorFlow 1.15, which also requires a job called chief.
    """
    config = read_tf_config(environment)
    master, evaluation_master = (str(config.other.get(name, "")) for name in ("session_master", "eval_session_master"))
    service, model_dir = config.other.get("service"), config.other.get("model_dir") or None
    if config.task is None:
        if config.job not in (None, "worker"):
            raise ConfigError(f"TF_CONFIG got task.type={shown(config.job)} and no cluster: expected worker")
        return ClusterPlace(master=master, evaluation_master=evaluation_master, service=service, model_dir=model_dir)
    job, index = str(config.job), config.index
    if job == "evaluator":
        return ClusterPlace(
            task_type=job,
            task=config.task,
            evaluation_master=evaluation_master,
            service=service,
            model_dir=model_dir,
        )
    master = master or _master(config.cluster, job, index)
    return ClusterPlace(config.cluster, job, index, config.task, master, service=service, model_dir=model_dir)


def _master(cluster: Mapping[str, Sequence[str]], job: str, index: int) -> str:
    is_alone = sum(map(len, cluster.values())) <= 1
    return "" if is_alone else f"{_SCHEME}{cluster[job][index]}"
