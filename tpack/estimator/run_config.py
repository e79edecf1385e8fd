"""The options of an Estimator's runs: directory, intervals, sessions and the place of this process in a cluster."""

import copy
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributeConfig, DistributionStrategy
from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.utils.tf_config import ClusterTask, read_tf_config
from tpack.utils.validation import (
    check_arguments,
    check_choice,
    check_count,
    check_function,
    check_instance,
    check_number,
    check_path,
    is_number,
    mismatch,
    shown,
)

_UNSET: Any = "unset"
_DEFAULT_SAVE_SECS = 600
_CHIEFS = ("chief", "master")
_ORDER = (*_CHIEFS, "worker", "ps")
"""The order in which tasks are numbered over all jobs."""


def _at_least_zero(owner: object, name: str, value: object) -> int:
    return check_count(owner, name, value, minimum=0)


def _not_negative(owner: object, name: str, value: object) -> float:
    return check_number(owner, name, value, low=0)


def _positive(owner: object, name: str, value: object) -> float:
    return check_number(owner, name, value, low=0, is_low_allowed=False)


def _a_strategy(owner: object, name: str, value: object) -> DistributionStrategy:
    return check_instance(owner, name, value, DistributionStrategy, "a tpack DistributionStrategy")


_CHECKS: Mapping[str, Callable[[object, str, Any], Any]] = {
    "model_dir": check_path,
    "tf_random_seed": lambda owner, name, value: check_count(owner, name, value, minimum=-(2**63)),
    "save_summary_steps": _at_least_zero,
    "save_checkpoints_steps": _at_least_zero,
    "save_checkpoints_secs": _not_negative,
    "session_config": lambda owner, name, value: check_instance(owner, name, value, tf.ConfigProto),
    "keep_checkpoint_max": _at_least_zero,
    "keep_checkpoint_every_n_hours": _not_negative,
    "log_step_count_steps": _at_least_zero,
    "train_distribute": _a_strategy,
    "eval_distribute": _a_strategy,
    "device_fn": check_function,
    "protocol": lambda owner, name, value: check_choice(owner, name, value, ("grpc",)),
    "experimental_max_worker_delay_secs": _not_negative,
    "session_creation_timeout_secs": _positive,
    "cluster": lambda owner, name, value: check_instance(owner, name, value, ClusterMember),
}
"""The check of each option that is not None."""


@dataclasses.dataclass(frozen=True)
class ClusterPlace:
    """Place of a process in the cluster of ``TF_CONFIG``, in TensorFlow 1's terms; alone without a cluster.

    The job of the first worker may be ``chief`` or ``master``, and the evaluator is outside of the cluster.

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

    cluster: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    task_type: str = "worker"
    task_id: int = 0
    task: ClusterTask | None = None
    master: str = ""
    evaluation_master: str = ""
    service: Any = None
    model_dir: str | None = None

    def _count(self, *jobs: str) -> int:
        return sum(len(self.cluster.get(job, ())) for job in jobs)

    @property
    def num_ps_replicas(self) -> int:
        """The number of parameter servers."""
        return self._count("ps")

    @property
    def num_worker_replicas(self) -> int:
        """The number of processes that train; 0 in an evaluator."""
        return self._count(*_CHIEFS, "worker") if self.cluster else int(self.task_type != "evaluator")

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints."""
        first = next((job for job in _ORDER if self.cluster.get(job)), "worker")
        return self.task_type == first and (not self.cluster or self.task_id == 0)

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this process over all jobs; None for an evaluator."""
        if not self.cluster:
            return None if self.task_type == "evaluator" else self.task_id
        return self._count(*_ORDER[: _ORDER.index(self.task_type)]) + self.task_id

    @property
    def has_others(self) -> bool:
        """Whether other processes train or hold variables."""
        return self._count(*_ORDER) > 1

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
    """Return the place of a member of a cluster."""
    task = ClusterTask(member.cluster, member.job, member.index) if member.cluster else None
    if member.job == "evaluator":
        return ClusterPlace(task_type=member.job, task=task)
    cluster = {job: list(addresses) for job, addresses in member.cluster.items()}
    return ClusterPlace(cluster, member.job, member.index, task, _master(cluster, member.job, member.index))


def place_from_environment(environment: Mapping[str, str]) -> ClusterPlace:
    """Return the place that ``TF_CONFIG`` gives to this process.

    Raises:
        ConfigError: The variable cannot be read or contradicts itself; the message shows the field.

    Source:
        ``tf.estimator.RunConfig`` of TensorFlow 1.15, which also requires a job called chief.
    """
    config = read_tf_config(environment)
    if config.task is None and config.job not in (None, "worker"):
        raise ConfigError(f"TF_CONFIG got task.type={shown(config.job)} and no cluster: expected worker")
    job = config.job or "worker"
    place = ClusterPlace(
        task_type=job,
        task=config.task,
        evaluation_master=str(config.other.get("eval_session_master", "")),
        service=config.other.get("service"),
        model_dir=config.other.get("model_dir") or None,
    )
    if job == "evaluator":
        return place
    master = str(config.other.get("session_master", "")) or _master(config.cluster, job, config.index)
    return dataclasses.replace(place, cluster=config.cluster, task_id=config.index, master=master)


def _master(cluster: Mapping[str, Sequence[str]], job: str, index: int) -> str:
    return f"grpc://{cluster[job][index]}" if sum(map(len, cluster.values())) > 1 else ""


@check_arguments
@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The options of an Estimator's runs, and the place of this process in a cluster.

    The place is that of ``TF_CONFIG`` at construction; `replace` keeps it. `train_and_evaluate` lists the parts of the
    processes.

    Args:
        model_dir: the directory of checkpoints and summaries; alternatively an argument of the Estimator.
        tf_random_seed: the seed of each graph; None for a random one.
        save_summary_steps: steps between summaries; 0 or None for none.
        save_checkpoints_steps: steps between checkpoints, instead of seconds.
        save_checkpoints_secs: seconds between checkpoints; 600 if neither is given. None for both: no checkpoints.
        session_config: a ``tf.ConfigProto``; None for tpack's default.
        keep_checkpoint_max: the number of checkpoints to keep; 0 or None for all.
        keep_checkpoint_every_n_hours: also keep a checkpoint this long after the last permanent one.
        log_step_count_steps: steps between log lines; 0 or None for none.
        train_distribute: a ``DistributionStrategy`` for training. Each of its K towers takes its own batches from the
            input_fn, which must return a Dataset; a step reads K batches. Between processes, a
            `CollectiveAllReduceStrategy` or a `ParameterServerStrategy`.
        device_fn: a device function for models without a strategy; None for TensorFlow's placement.
        protocol: the protocol of TensorFlow's servers; None for ``"grpc"``, the only one.
        eval_distribute: a ``DistributionStrategy`` whose K devices evaluate, K batches in a step. At the end, batches
            for fewer than K towers are dropped.
        experimental_distribute: a `DistributeConfig` with both strategies, instead of the other two options.
        experimental_max_worker_delay_secs: unused; workers begin when the chief has initialised the variables.
        session_creation_timeout_secs: the time limit for the processes of a cluster to meet before training.
        cluster: the place of this process, as from `resolve_cluster`; None for that of ``TF_CONFIG``. For other
            launchers, such as Slurm or ``mpirun``.

    Raises:
        ConfigError: Checkpoints by steps and by seconds, an option out of range, strategies given twice, or for a
            cluster that one process trains on from outside. Or ``TF_CONFIG`` cannot be read, or names another
            directory.
        WrongTypeError: An option has another type.

    Source:
        ``tf.estimator.RunConfig`` of TensorFlow 1. There, a cluster needs a job ``chief`` or ``master``; here the first
        worker of one without it is the chief. There, a strategy removes the place.
    """

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = _UNSET
    save_checkpoints_secs: float | None = _UNSET
    session_config: tf.ConfigProto | None = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    train_distribute: DistributionStrategy | None = None
    device_fn: Callable[[tf.Operation], str] | None = None
    protocol: str | None = None
    eval_distribute: DistributionStrategy | None = None
    experimental_distribute: DistributeConfig | None = None
    experimental_max_worker_delay_secs: float | None = None
    session_creation_timeout_secs: float = 7200
    cluster: ClusterMember | None = None

    def __post_init__(self) -> None:
        """Check the options, and choose the interval of checkpoints."""
        self._choose_when_to_save()
        self._take_strategies()
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(self, name, value))
        for name in ("train_distribute", "eval_distribute"):
            strategy = getattr(self, name)
            if strategy is not None and strategy.is_default:
                raise ConfigError(f"RunConfig got the default strategy as {name}: expected one with devices")
        self._take_place()

    def _take_place(self) -> None:
        """Find the place of this process, unless it was copied from another config."""
        known: tuple[ClusterMember | None, ClusterPlace] | None = self.__dict__.get("_known_place")
        if known is None or known[0] is not self.cluster:
            found = place_from_environment(os.environ) if self.cluster is None else place_of_member(self.cluster)
            known = (self.cluster, found)
            object.__setattr__(self, "_known_place", known)
        told = known[1].model_dir
        if told is not None and self.model_dir not in (None, told):
            raise ConfigError(mismatch(self, "model_dir", self.model_dir, f"{told!r}, as in TF_CONFIG, or None"))
        object.__setattr__(self, "model_dir", self.model_dir or told)

    @property
    def place(self) -> ClusterPlace:
        """The place of this process."""
        place: ClusterPlace = self.__dict__["_known_place"][1]
        return place

    def member(self) -> ClusterMember:
        """Return the place of this process for servers and connections between workers.

        Raises:
            ConfigError: The environment variables contradict each other.
        """
        if self.cluster is not None:
            return self.cluster
        return ClusterMember() if self.place.task is None else resolve_cluster(self.place.task)

    def _take_strategies(self) -> None:
        """Adopt the strategies of ``experimental_distribute``, the form of TensorFlow 1.11."""
        both = self.experimental_distribute
        if both is None:
            return
        check_instance(self, "experimental_distribute", both, DistributeConfig)
        if self.train_distribute is not None or self.eval_distribute is not None:
            raise ConfigError("RunConfig got strategies twice: expected experimental_distribute, or the others")
        if both.remote_cluster is not None:
            raise ConfigError(mismatch(both, "remote_cluster", both.remote_cluster, "None for an Estimator"))
        object.__setattr__(self, "train_distribute", both.train_distribute)
        object.__setattr__(self, "eval_distribute", both.eval_distribute)
        object.__setattr__(self, "experimental_distribute", None)

    def _choose_when_to_save(self) -> None:
        is_unset = self.save_checkpoints_steps is _UNSET, self.save_checkpoints_secs is _UNSET
        steps = None if is_unset[0] else self.save_checkpoints_steps
        secs = None if is_unset[1] else self.save_checkpoints_secs
        if steps is not None and secs is not None:
            got = f"save_checkpoints_steps={steps!r} and save_checkpoints_secs={secs!r}"
            raise ConfigError(f"RunConfig got {got}: expected one of them")
        object.__setattr__(self, "save_checkpoints_steps", steps)
        object.__setattr__(self, "save_checkpoints_secs", _DEFAULT_SAVE_SECS if all(is_unset) else secs)

    def replace(self, **changes: Any) -> "RunConfig":
        """Return a config with other values; saving by steps replaces saving by seconds, and vice versa.

        Raises:
            ConfigError: An unknown field or a wrong value.
        """
        unknown = set(changes) - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigError(f"replace got {', '.join(sorted(unknown))}: expected fields of a RunConfig")
        when = {"save_checkpoints_steps", "save_checkpoints_secs"}
        if len(when & set(changes)) == 1:
            changes = {**dict.fromkeys(when), **changes}
        # Without the constructor: a subclass may have another, and its own values.
        replaced = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(replaced, name, value)
        replaced.__post_init__()
        return replaced

    is_chief = property(attrgetter("place.is_chief"), doc="Whether this process writes checkpoints.")
    num_worker_replicas = property(attrgetter("place.num_worker_replicas"), doc="The number of processes that train.")

    @property
    def num_ps_replicas(self) -> int:
        """The number of processes that only hold variables."""
        return self.place.num_ps_replicas

    @property
    def task_type(self) -> str:
        """The job of this process: ``"chief"``, ``"master"``, ``"worker"``, ``"ps"`` or ``"evaluator"``."""
        return self.place.task_type

    task_id = property(attrgetter("place.task_id"), doc="The number of this process in its job.")

    @property
    def master(self) -> str:
        """The address of the server for training; empty for sessions in this process."""
        return self.place.master

    @property
    def evaluation_master(self) -> str:
        """The address in ``TF_CONFIG`` for evaluation, which still runs in this process."""
        return self.place.evaluation_master

    @property
    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The processes of the cluster; empty for a single process and for an evaluator."""
        return tf.train.ClusterSpec({job: list(addresses) for job, addresses in self.place.cluster.items()})

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this process over all jobs; None for an evaluator."""
        return self.place.global_id_in_cluster

    service = property(attrgetter("place.service"), doc="The entry of this name in ``TF_CONFIG``.")

    @property
    def device_filters(self) -> tuple[str, ...]:
        """The parts of the cluster visible to this process's sessions, with variables on parameter servers."""
        return self.place.device_filters


def number_of_steps(owner: str, name: str, value: float | None) -> int | None:
    """Return a number of steps, which may be a float such as 1e4, as an integer, and None for None; refuse others."""
    if value is None:
        return None
    number = float(value) if is_number(value) else 0.0
    if not number.is_integer() or number <= 0:
        raise ConfigError(mismatch(owner, name, value, "a positive whole number"))
    return int(number)
