"""How an Estimator runs: where its checkpoints go, how often it writes what, and its sessions' configuration."""

import copy
import dataclasses
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributeConfig, DistributionStrategy
from tpack.errors import ConfigError
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_count, check_function, check_instance, check_number, check_path, shown

_UNSET: Any = "unset"
_DEFAULT_SAVE_SECS = 600


def _at_least_zero(owner: object, name: str, value: object) -> int:
    return check_count(owner, name, value, minimum=0)


def _not_negative(owner: object, name: str, value: object) -> float:
    return check_number(owner, name, value, low=0)


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
}
"""How each option is checked, if it is not None."""


@check_arguments
@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The options of an Estimator's runs. They hold for one process.

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
            of its own from the input_fn, which has to return a Dataset; K batches are one step.
        device_fn: a device function for models that are under no strategy; None leaves it to TensorFlow.
        eval_distribute: a ``DistributionStrategy`` on whose K devices models are evaluated, K batches in a step. At the
            end, batches for fewer than K towers are dropped.
        experimental_distribute: a `DistributeConfig`, which holds both strategies, in place of the other two options.

    Raises:
        ConfigError: Checkpoints are wanted by steps and by seconds, an option is out of range, or strategies are given
            twice, or for a cluster.
        WrongTypeError: An option is of another type.

    Source:
        ``tf.estimator.RunConfig`` of TensorFlow 1, less what it has for clusters.
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
    eval_distribute: DistributionStrategy | None = None
    experimental_distribute: DistributeConfig | None = None

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

    def _take_strategies(self) -> None:
        """Take over the strategies of the other form of these options, as it is known from TensorFlow 1.11."""
        both = self.experimental_distribute
        if both is None:
            return
        check_instance(self, "experimental_distribute", both, DistributeConfig)
        if self.train_distribute is not None or self.eval_distribute is not None:
            raise ConfigError(
                "the strategies are given twice: wanted experimental_distribute, or the other two options"
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
        """Whether this process writes checkpoints: always, as it is the only one."""
        return True

    @property
    def num_worker_replicas(self) -> int:
        """How many processes train: one."""
        return 1

    @property
    def num_ps_replicas(self) -> int:
        """How many processes only hold variables: none."""
        return 0

    @property
    def task_type(self) -> str:
        """The job of this process."""
        return "worker"

    @property
    def task_id(self) -> int:
        """The number of this process in its job."""
        return 0

    @property
    def master(self) -> str:
        """The address of the server that sessions connect to: none, they run in this process."""
        return ""


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
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if is_number else 0.0
    if not number.is_integer() or number <= 0:
        raise ConfigError(f"{name} must be positive, and a whole number, got {value!r}")
    return int(number)
