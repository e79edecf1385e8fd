"""How an Estimator runs: where its checkpoints go, how often it writes what, and its sessions' configuration."""

import copy
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributeConfig, DistributionStrategy
from tpack.errors import ConfigError
from tpack.estimator.cluster_place import ClusterPlace, place_from_environment, place_of_member
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.utils.validation import (
    check_arguments,
    check_choice,
    check_count,
    check_function,
    check_instance,
    check_number,
    check_path,
    is_number,
    shown,
)

_UNSET: Any = "unset"
_DEFAULT_SAVE_SECS = 600


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
"""How each option is checked, if it is not None."""


@check_arguments
@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The options of an Estimator's runs, and the place of this process where there are several.

    The place is what ``TF_CONFIG`` says when the object is made; `replace` keeps it. Which process does what is told by
    `train_and_evaluate`.

    Args:
        model_dir: where checkpoints and summaries go; the Estimator may be given it instead.
        tf_random_seed: the seed of each graph; None leaves it to chance.
        save_summary_steps: steps between two summaries; 0 or None writes none.
        save_checkpoints_steps: steps between two checkpoints. Either this or the seconds can be given.
        save_checkpoints_secs: seconds between two checkpoints; 600 if neither is given. With None for both, no
            checkpoint is written.
        session_config: a ``tf.ConfigProto``; None means tpack's own.
        keep_checkpoint_max: how many checkpoints are kept; 0 or None keeps all.
        keep_checkpoint_every_n_hours: a checkpoint this long after the last one that was kept for good is kept, too.
        log_step_count_steps: steps between two lines of the log; 0 or None writes none.
        train_distribute: a ``DistributionStrategy`` under which models are trained. Each of its K towers takes batches
            of its own from the input_fn, which has to return a Dataset; K batches are one step. Between processes it is
            a `CollectiveAllReduceStrategy` or a `ParameterServerStrategy`.
        device_fn: a device function for models that are under no strategy; None leaves it to TensorFlow.
        protocol: of TensorFlow's servers: ``"grpc"``, which None means too.
        eval_distribute: a ``DistributionStrategy`` on whose K devices models are evaluated, K batches in a step. At the
            end, batches for fewer than K towers are dropped.
        experimental_distribute: a `DistributeConfig`, which holds both strategies, in place of the other two options.
        experimental_max_worker_delay_secs: not used: workers begin when the chief has given the variables their values.
        session_creation_timeout_secs: how long the processes of a cluster wait for each other before they train.
        cluster: the place of this process, as `resolve_cluster` returns it; None for what ``TF_CONFIG`` says. For
            processes that something else starts, such as Slurm or ``mpirun``.

    Raises:
        ConfigError: Checkpoints are wanted by steps and by seconds, an option is out of range, or strategies are given
            twice, or for a cluster that one process trains on from outside. Or ``TF_CONFIG`` cannot be read, or names
            another directory.
        WrongTypeError: An option is of another type.

    Source:
        ``tf.estimator.RunConfig`` of TensorFlow 1. There, a cluster needs a job ``chief`` or ``master``; here the first
        worker is the chief of one that has none. And there the place is left out under a strategy.
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
        """Check the options, and choose when to save."""
        self._choose_when_to_save()
        self._take_strategies()
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(self, name, value))
        for name in ("train_distribute", "eval_distribute"):
            strategy = getattr(self, name)
            if strategy is not None and strategy.is_default:
                raise ConfigError(f"{name} of a RunConfig must be a strategy with devices, got the default one")
        self._take_place()

    def _take_place(self) -> None:
        """Find the place of this process, once: a config that was made of another one keeps it."""
        known: tuple[ClusterMember | None, ClusterPlace] | None = self.__dict__.get("_known_place")
        if known is None or known[0] is not self.cluster:
            found = place_from_environment(os.environ) if self.cluster is None else place_of_member(self.cluster)
            known = (self.cluster, found)
            object.__setattr__(self, "_known_place", known)
        told = known[1].model_dir
        if told is not None and self.model_dir not in (None, told):
            raise ConfigError(f"model_dir is {self.model_dir!r}, and TF_CONFIG says {told!r}: expected one")
        object.__setattr__(self, "model_dir", self.model_dir or told)

    @property
    def place(self) -> ClusterPlace:
        """The place of this process."""
        place: ClusterPlace = self.__dict__["_known_place"][1]
        return place

    def member(self) -> ClusterMember:
        """Return the place of this process as what starts servers and connects workers needs it.

        Raises:
            ConfigError: The variables of the environment contradict each other.
        """
        if self.cluster is not None:
            return self.cluster
        return ClusterMember() if self.place.task is None else resolve_cluster(self.place.task)

    def _take_strategies(self) -> None:
        """Take over the strategies of the other form of these options, as it is known from TensorFlow 1.11."""
        both = self.experimental_distribute
        if both is None:
            return
        check_instance(self, "experimental_distribute", both, DistributeConfig)
        if self.train_distribute is not None or self.eval_distribute is not None:
            raise ConfigError(
                "the strategies are given twice: expected experimental_distribute, or the other two options"
            )
        if both.remote_cluster is not None:
            raise ConfigError(f"an Estimator is of one process, got remote_cluster={shown(both.remote_cluster)}")
        object.__setattr__(self, "train_distribute", both.train_distribute)
        object.__setattr__(self, "eval_distribute", both.eval_distribute)
        object.__setattr__(self, "experimental_distribute", None)

    def _choose_when_to_save(self) -> None:
        is_unset = self.save_checkpoints_steps is _UNSET, self.save_checkpoints_secs is _UNSET
        steps = None if is_unset[0] else self.save_checkpoints_steps
        secs = None if is_unset[1] else self.save_checkpoints_secs
        if steps is not None and secs is not None:
            raise ConfigError(
                f"checkpoints are saved by steps or by seconds, got save_checkpoints_steps={steps!r} and "
                f"save_checkpoints_secs={secs!r}"
            )
        object.__setattr__(self, "save_checkpoints_steps", steps)
        object.__setattr__(self, "save_checkpoints_secs", _DEFAULT_SAVE_SECS if all(is_unset) else secs)

    def replace(self, **changes: Any) -> "RunConfig":
        """Return a config with other values; saving by steps takes the place of saving by seconds, and back.

        Args:
            **changes: fields by name.

        Raises:
            ConfigError: There is no such field, or its value cannot be.
        """
        unknown = set(changes) - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigError(f"a RunConfig has no {', '.join(sorted(unknown))}")
        when = {"save_checkpoints_steps", "save_checkpoints_secs"}
        if len(when & set(changes)) == 1:
            changes = {**dict.fromkeys(when), **changes}
        # Not with the constructor: a subclass may have another one, and values of its own.
        replaced = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(replaced, name, value)
        replaced.__post_init__()
        return replaced

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints."""
        return self.place.is_chief

    @property
    def num_worker_replicas(self) -> int:
        """How many processes train."""
        return self.place.num_worker_replicas

    @property
    def num_ps_replicas(self) -> int:
        """How many processes only hold variables."""
        return self.place.num_ps_replicas

    @property
    def task_type(self) -> str:
        """The job of this process: ``"chief"``, ``"master"``, ``"worker"``, ``"ps"`` or ``"evaluator"``."""
        return self.place.task_type

    @property
    def task_id(self) -> int:
        """The number of this process in its job."""
        return self.place.task_id

    @property
    def master(self) -> str:
        """The address of the server that training connects to; empty for sessions that run in this process."""
        return self.place.master

    @property
    def evaluation_master(self) -> str:
        """The address that ``TF_CONFIG`` names for evaluation, which runs in this process all the same."""
        return self.place.evaluation_master

    @property
    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The processes of the cluster; empty for a process that is alone, and for an evaluator."""
        return tf.train.ClusterSpec({job: list(addresses) for job, addresses in self.place.cluster.items()})

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this process over all jobs; None for an evaluator."""
        return self.place.global_id_in_cluster

    @property
    def service(self) -> Any:
        """What ``TF_CONFIG`` has under this name."""
        return self.place.service

    @property
    def device_filters(self) -> tuple[str, ...]:
        """The parts of the cluster that sessions of this process see where variables are on parameter servers."""
        return self.place.device_filters


def number_of_steps(name: str, value: float | None) -> int | None:
    """Return a number of steps as an integer, and None for None.

    Args:
        name: what it is called in the message.
        value: an integer, or a float such as 1e4.

    Raises:
        ConfigError: It is something else, or not positive.
    """
    if value is None:
        return None
    number = float(value) if is_number(value) else 0.0
    if not number.is_integer() or number <= 0:
        raise ConfigError(f"{name} must be positive, and a whole number, got {value!r}")
    return int(number)
