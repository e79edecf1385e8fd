"""`RunConfig` with all its arguments in TensorFlow 1.15."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributeConfig, DistributionStrategy
from tpack.estimator import run_config

# What tpack's config has for "neither is given".
_UNSET: Any = run_config.RunConfig.__dataclass_fields__["save_checkpoints_steps"].default
_CREATION_SECS = 7200


class RunConfig(run_config.RunConfig):
    """The options of an Estimator's runs; see `tpack.estimator.RunConfig`.

    Args:
        model_dir: the directory of checkpoints and summaries.
        tf_random_seed: the seed of each graph.
        save_summary_steps: steps between two summaries.
        save_checkpoints_steps: steps between two checkpoints.
        save_checkpoints_secs: seconds between two checkpoints.
        session_config: a ``tf.ConfigProto``.
        keep_checkpoint_max: the number of checkpoints to keep.
        keep_checkpoint_every_n_hours: time between checkpoints that are kept for good.
        log_step_count_steps: steps between two lines of the log.
        train_distribute: a strategy to train under.
        device_fn: a device function.
        protocol: None or ``"grpc"``.
        eval_distribute: a strategy to evaluate under.
        experimental_distribute: both strategies.
        experimental_max_worker_delay_secs: not used.
        session_creation_timeout_secs: the timeout of a cluster's processes for each other.

    Raises:
        ConfigError: As for `tpack.estimator.RunConfig`, or the protocol is unknown.
    """

    def __init__(
        self,
        model_dir: str | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _UNSET,
        save_checkpoints_secs: float | None = _UNSET,
        session_config: tf.ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: DistributionStrategy | None = None,
        device_fn: Callable[[tf.Operation], str] | None = None,
        protocol: str | None = None,
        eval_distribute: DistributionStrategy | None = None,
        experimental_distribute: DistributeConfig | None = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = _CREATION_SECS,
    ) -> None:
        given = locals()
        del given["self"], given["__class__"]
        super().__init__(**given)
