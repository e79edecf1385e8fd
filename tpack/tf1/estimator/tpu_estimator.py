"""``tf.estimator.RunConfig``, and ``tf.estimator.tpu`` on CPUs and GPUs: ``TPUEstimator(use_tpu=False)``.

Without a TPU it is an Estimator that passes the size of a batch to its input_fn and model_fn as
``params["batch_size"]``, and whose metrics are a function of tensors. ``use_tpu=True`` is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributeConfig, DistributionStrategy
from tpack.errors import ConfigError
from tpack.estimator import run_config
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import InputFn, call_with_accepted, takes_argument
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.utils.validation import check_count, shown

# What tpack's config has for "neither is given".
_UNSET: Any = run_config.RunConfig.__dataclass_fields__["save_checkpoints_steps"].default
_CREATION_SECS = 7200
_BATCH_SIZE = "batch_size"
_RESERVED = (_BATCH_SIZE, "context")

Metrics = tuple[Callable[..., Mapping[str, Any]], Any]
"""A function, and the tensors that it is called with: a list, or a dict by the names of its arguments."""


class InputPipelineConfig:
    """The feeding of a TPU; of no effect here."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class TPUConfig(NamedTuple):
    """The options of a TPU; of no effect here, and kept for reading."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = InputPipelineConfig.PER_HOST_V1
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1


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


class TPURunConfig(RunConfig):
    """A ``tf.estimator.RunConfig`` with the options of a TPU.

    Args:
        tpu_config: a `TPUConfig`.
        evaluation_master: the address of a server; refused, since sessions run in this process, like ``master``.
        master: see above.
        cluster: a resolver of clusters, as ``TPUClusterResolver``; refused.
        **kwargs: the options of ``tf.estimator.RunConfig``.

    Raises:
        ConfigError: A server or cluster is given, or an option is out of range.
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        servers = {"evaluation_master": evaluation_master, "master": master, "cluster": cluster}
        for name, server in servers.items():
            if server:
                raise ConfigError(
                    f"RunConfig got {name}={server!r}: expected None, since there are no TPUs and no servers here"
                )
        object.__setattr__(self, "tpu_config", tpu_config or TPUConfig())
        object.__setattr__(self, "cluster", None)

    def replace(self, **changes: Any) -> "TPURunConfig":
        """Return a config with other values, and the same options of a TPU unless given."""
        tpu_config = changes.pop("tpu_config", vars(self)["tpu_config"])
        config = RunConfig.replace(self, **changes)
        object.__setattr__(config, "tpu_config", tpu_config)
        return config  # type: ignore[return-value]


class TPUEstimatorSpec(NamedTuple):
    """The result of a model_fn for TPUs: an ``EstimatorSpec`` with functions for some entries.

    Attributes:
        mode: one of ``tf.estimator.ModeKeys``.
        predictions: a dict of tensors.
        loss: a scalar.
        train_op: the operation of a step.
        eval_metrics: a function that makes the metrics, and its tensors.
        export_outputs: as in an ``EstimatorSpec``.
        scaffold_fn: a function that makes a ``tf.train.Scaffold``.
        host_call: a function and its tensors; its operations run after each training step.
        training_hooks: session hooks.
        evaluation_hooks: session hooks.
        prediction_hooks: session hooks.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Metrics | None = None
    export_outputs: Mapping[str, Any] | None = None
    scaffold_fn: Callable[[], tf.train.Scaffold] | None = None
    host_call: Metrics | None = None
    training_hooks: Sequence[Any] | None = None
    evaluation_hooks: Sequence[Any] | None = None
    prediction_hooks: Sequence[Any] | None = None

    def as_estimator_spec(self) -> EstimatorSpec:
        """Return the ``EstimatorSpec`` for CPUs and GPUs."""
        hooks = {
            name: tuple(getattr(self, name) or ())
            for name in ("training_hooks", "evaluation_hooks", "prediction_hooks")
        }
        if self.host_call is not None and self.mode == ModeKeys.TRAIN:
            hooks["training_hooks"] += (_HostCallHook(_call(*self.host_call)),)
        return EstimatorSpec(
            self.mode,
            self.predictions,
            self.loss,
            self.train_op,
            eval_metric_ops=None if self.eval_metrics is None else _call(*self.eval_metrics),
            export_outputs=self.export_outputs,
            scaffold=None if self.scaffold_fn is None else self.scaffold_fn(),
            **hooks,
        )


class _HostCallHook(tf.train.SessionRunHook):
    """Run the operations of a host call with each step."""

    def __init__(self, made: Any) -> None:
        self._made = tf.nest.flatten(made)

    def before_run(self, run_context: Any) -> Any:
        """Fetch them."""
        return tf.train.SessionRunArgs(self._made)


def _call(function: Callable[..., Any], tensors: Any) -> Any:
    """Call a function with tensors in a list, or in a dict by argument names."""
    if isinstance(tensors, Mapping):
        return function(**tensors)
    return function(*(tensors if isinstance(tensors, list | tuple) else [tensors]))


class TPUEstimator(Estimator):
    """An Estimator that passes the size of a batch to its functions, as ``params["batch_size"]``.

    Args:
        model_fn: as for ``tf.estimator.Estimator``; it may return a `TPUEstimatorSpec`.
        model_dir: the directory of checkpoints and summaries.
        config: a `TPURunConfig`, or one of ``tf.estimator``.
        params: given to the functions, with the size of a batch added.
        use_tpu: False.
        train_batch_size: of a batch in training.
        eval_batch_size: in evaluation.
        predict_batch_size: in prediction.
        warm_start_from: as for ``tf.estimator.Estimator``.

    Raises:
        ConfigError: A TPU is requested, ``params`` has a reserved name, or an argument is refused by
            ``tf.estimator.Estimator``.

    Source:
        TensorFlow 1.15, with ``use_tpu=False``; the other arguments are those of TPUs and have no effect.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = None,
    ) -> None:
        if use_tpu:
            raise ConfigError("a TPUEstimator got use_tpu=True: expected False, since there are no TPUs here")
        taken = [name for name in _RESERVED if name in (params or {})]
        if taken:
            raise ConfigError(
                f"a TPUEstimator got params with {' and '.join(taken)}: expected none of them, since it adds them"
            )
        sizes = {ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size, ModeKeys.PREDICT: predict_batch_size}
        names = ("train_batch_size", "eval_batch_size", "predict_batch_size")
        for name, size in zip(names, sizes.values(), strict=True):
            if size is not None:
                check_count(self, name, size)
        self._batch_sizes = sizes
        if not callable(model_fn):
            raise ConfigError(f"a TPUEstimator got model_fn={model_fn!r}: expected a function")
        super().__init__(self._with_batch_size(model_fn), model_dir, config, dict(params or {}), warm_start_from)

    def _with_batch_size(self, model_fn: Callable[..., Any]) -> Callable[..., EstimatorSpec]:
        """Return the model_fn with the size of a batch in its parameters, and an ``EstimatorSpec`` as its result."""
        if not takes_argument(model_fn, "params"):
            raise ConfigError(
                f"got model_fn={model_fn!r}: expected a function that takes params, which have the size of a batch"
            )

        def call(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
            optional = {"labels": labels, "mode": mode, "params": self._params_of(mode, params), "config": config}
            spec = call_with_accepted(model_fn, optional, features=features)
            return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

        return call

    def _input_of(self, input_fn: InputFn, mode: str) -> InputFn:
        """Return the input_fn with the size of a batch in its parameters."""
        if not callable(input_fn):
            raise ConfigError(
                f"a TPUEstimator got input_fn={shown(input_fn)}: expected a function that takes params, which have the "
                "size of a batch; use tf.estimator.Estimator for data in batches"
            )
        if not takes_argument(input_fn, "params"):
            raise ConfigError(
                f"got input_fn={input_fn!r}: expected a function that takes params, which have the size of a batch"
            )

        def call(mode: str, params: Any, config: Any) -> Any:
            optional = {"mode": mode, "params": self._params_of(mode, params), "config": config}
            return call_with_accepted(input_fn, optional)

        return call

    def _params_of(self, mode: str, params: Any) -> dict[str, Any]:
        size = self._batch_sizes[mode]
        return dict(params) if size is None else {**params, _BATCH_SIZE: size}

    def train(self, input_fn: InputFn, *args: Any, **kwargs: Any) -> "TPUEstimator":
        """Train as ``tf.estimator.Estimator.train`` does."""
        super().train(self._input_of(input_fn, ModeKeys.TRAIN), *args, **kwargs)
        return self

    def evaluate(self, input_fn: InputFn, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Evaluate as ``tf.estimator.Estimator.evaluate`` does."""
        return super().evaluate(self._input_of(input_fn, ModeKeys.EVAL), *args, **kwargs)

    def predict(self, input_fn: InputFn, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Predict as ``tf.estimator.Estimator.predict`` does."""
        return super().predict(self._input_of(input_fn, ModeKeys.PREDICT), *args, **kwargs)


class CrossShardOptimizer(ProxyOptimizer):
    """An optimizer of the gradients of all shards of a TPU; here, the given optimizer.

    Args:
        opt: the optimizer.
        reduction: of the gradients; of no effect with a single shard.
        name: of this one.
        group_assignment: of no effect either.

    Raises:
        ValueError: The reduction is neither SUM nor MEAN.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        reduction: str = tf.losses.Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        if reduction not in (tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN):
            raise ValueError(f"CrossShardOptimizer got reduction={reduction!r}: expected SUM or MEAN")
        super().__init__(opt, name)
