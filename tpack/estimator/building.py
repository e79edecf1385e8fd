"""Build the graph of one run of an Estimator: input, model, and values of another model to start from.

A model_fn takes ``features`` and any of ``labels``, ``mode``, ``params`` and ``config``; it returns an EstimatorSpec.

Under a distribution strategy each tower takes its own batches from the Dataset, so a step reads K batches. Training
uses the strategy's towers, variables and updates. Evaluation builds towers that share plain variables, on the devices
of the strategy, and adds up their metrics. Checkpoints are the same in both, and without a strategy.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributionStrategy, get_loss_reduction
from tpack.distribute.values import select_device
from tpack.errors import ConfigError
from tpack.estimator.inputs import (
    GivenInput,
    Inputs,
    call_distributed_input_fn,
    call_with_accepted,
    required_arguments,
    takes_argument,
)
from tpack.estimator.merge_specs import join_towers
from tpack.estimator.replicated import build_towers, replication_over
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys, operation_of
from tpack.reduction.sums import sum_tensors
from tpack.tfutils.checkpoint import resolve_checkpoint
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import TowerContext, current_tower_context
from tpack.utils import logger
from tpack.utils.validation import check_arguments

ModelFn = Callable[..., EstimatorSpec]

ARGUMENTS = ("features", "labels", "mode", "params", "config")
_RESULTS = "/device:CPU:0"


def check_model_fn(model_fn: ModelFn, params: object = None) -> None:
    """Check the arguments of a model_fn.

    Args:
        model_fn: the function.
        params: what it will be called with; None for nothing.

    Raises:
        ConfigError: It is no function, does not take the features, does not take parameters that there are, or wants
            arguments that nobody gives.
    """
    if not callable(model_fn):
        raise ConfigError(f"model_fn must be a function, got {model_fn!r}")
    if not takes_argument(model_fn, "features"):
        raise ConfigError(f"model_fn {model_fn!r} must take the argument features")
    if params is not None and not takes_argument(model_fn, "params"):
        raise ConfigError(f"there are params, and model_fn {model_fn!r} does not take them")
    unknown = [name for name in required_arguments(model_fn) if name not in ARGUMENTS]
    if unknown:
        raise ConfigError(f"model_fn {model_fn!r} wants {', '.join(unknown)}, and gets {', '.join(ARGUMENTS)}")


def call_model_fn(
    model_fn: ModelFn,
    features: object,
    labels: object,
    mode: str,
    *,
    params: object = None,
    config: RunConfig | None = None,
) -> EstimatorSpec:
    """Call a model_fn with those of its arguments that it takes.

    Args:
        model_fn: the function.
        features: the input.
        labels: what goes with it, if there are any.
        mode: one of `ModeKeys`.
        params: the function gets a copy, so that it can change it.
        config: the `RunConfig`.

    Raises:
        ConfigError: There are labels which it does not take, or it returns something else than an EstimatorSpec, or one
            of another mode.
    """
    if labels is not None and not takes_argument(model_fn, "labels"):
        raise ConfigError(f"there are labels, and model_fn {model_fn!r} does not take them")
    optional = {"labels": labels, "mode": mode, "params": copy.deepcopy(params), "config": config}
    spec = call_with_accepted(model_fn, optional, features=features)
    if not isinstance(spec, EstimatorSpec):
        raise ConfigError(f"model_fn {model_fn!r} must return an EstimatorSpec, got {spec!r}")
    if spec.mode != mode:
        raise ConfigError(f"model_fn {model_fn!r} was called with mode {mode!r} and returned a spec of {spec.mode!r}")
    return spec


@check_arguments
class WarmStartSettings(NamedTuple):
    """Which variables begin with values of which checkpoint, that of another model.

    Attributes:
        ckpt_to_initialize_from: a checkpoint, or a directory of them.
        vars_to_warm_start: a regular expression for names of trainable variables, a list of such for any variables, or
            None for those alone that are renamed.
        var_name_to_vocab_info: name to ``tf.train.VocabInfo``, for embeddings whose vocabulary has changed.
        var_name_to_prev_var_name: name to the name in the checkpoint, for variables that have another there.
    """

    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[str] | Sequence[tf.Variable] | None = ".*"
    var_name_to_vocab_info: Mapping[str, tf.train.VocabInfo] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ModelParts:
    """What an Estimator builds each of its graphs from."""

    model_fn: ModelFn
    params: object
    config: RunConfig
    model_dir: str


@dataclass(frozen=True)
class BuiltModel:
    """A model in a graph."""

    inputs: Inputs
    spec: EstimatorSpec
    global_step: tf.Variable


def build_model(parts: ModelParts, mode: str, make_inputs: Callable[[], Inputs]) -> BuiltModel:
    """Build input and model into the current graph, the model as a tower.

    Args:
        parts: the model.
        mode: one of `ModeKeys`.
        make_inputs: builds the input. In prediction, labels are dropped.

    Raises:
        ConfigError: The model_fn is called wrongly or returns no spec for the mode.
    """
    tf.set_random_seed(parts.config.tf_random_seed)
    global_step = get_global_step_var()
    inputs = make_inputs()
    labels = None if mode == ModeKeys.PREDICT else inputs.labels
    # Layers ask the tower whether they train. A replicated model_fn leaves it for towers of its own.
    with TowerContext("", is_training=mode == ModeKeys.TRAIN, device=parts.config.device_fn):
        spec = call_model_fn(parts.model_fn, inputs.features, labels, mode, params=parts.params, config=parts.config)
    return BuiltModel(inputs, spec, global_step)


def make_warm_start_settings(warm_start_from: str | WarmStartSettings | None) -> WarmStartSettings | None:
    """Return the settings for what people give.

    Args:
        warm_start_from: settings, the path of a checkpoint, from which all trainable variables begin, or None.

    Raises:
        ConfigError: It is something else.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, str):
        return WarmStartSettings(warm_start_from)
    raise ConfigError(f"warm_start_from must be a path or WarmStartSettings, got {warm_start_from!r}")


def warm_start(settings: WarmStartSettings) -> None:
    """Change the initialisers of the current graph's variables to read a checkpoint.

    Args:
        settings: which variables and which checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint.
    """
    path = resolve_checkpoint(settings.ckpt_to_initialize_from)
    logger.info(f"The model begins with values from {path}.")
    tf.train.warm_start(path, *settings[1:])


def build_distributed_training(parts: ModelParts, given: GivenInput, strategy: DistributionStrategy) -> BuiltModel:
    """Build input and model for training into the current graph, in the towers of a strategy.

    Args:
        parts: the model, with any ``tf.train.Optimizer``.
        given: an input_fn that returns a Dataset, or data.
        strategy: under which it trains.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its train op is those of all
        towers; all else in its spec is the first tower's.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: The input_fn or the model_fn is called wrongly or returns something else than it should.
        StrategyError: A tower changes by itself what is the same for all.
        TowerMismatchError: The towers differ in their variables or optimizers.

    Source:
        Training with ``train_distribute`` of TensorFlow 1's estimators.
    """
    specs: dict[int, EstimatorSpec] = {}

    def build_tower(features: object, labels: object) -> None:
        tower = current_tower_context()
        # What a model_fn returns is more than tensors, so that nobody knows what it would return in a copy.
        tower.note_asked("EstimatorSpec")
        specs[tower.index] = call_model_fn(
            parts.model_fn, features, labels, ModeKeys.TRAIN, params=parts.params, config=parts.config
        )

    strategy.configure(parts.config.session_config)
    with strategy.scope():
        tf.set_random_seed(parts.config.tf_random_seed)
        global_step = get_global_step_var()
        inputs = call_distributed_input_fn(given, ModeKeys.TRAIN, strategy, params=parts.params, config=parts.config)
        strategy.call_for_each_tower(build_tower, inputs.features, inputs.labels)
    towers = [specs[index] for index in sorted(specs)]
    train_op = tf.group(*dict.fromkeys(operation_of(spec.train_op) for spec in towers), name="train_op_of_all_towers")
    with tf.device(_RESULTS):
        own_loss = _whole_loss(sum_tensors([spec.loss for spec in towers]), len(towers))
        loss = tf.identity(strategy.reduce_over_workers(get_loss_reduction(), own_loss), name="loss")
    return BuiltModel(inputs, towers[0]._replace(loss=loss, train_op=train_op), global_step)


def build_distributed_evaluation(parts: ModelParts, given: GivenInput, strategy: DistributionStrategy) -> BuiltModel:
    """Build input and model for evaluation into the current graph, in a tower on each device of a strategy.

    Args:
        parts: the model.
        given: an input_fn that returns a Dataset, or data. Of the batches, those that are left at the end for fewer
            than K towers are dropped.
        strategy: on whose devices it is evaluated.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its metrics are those of all
        K batches.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: The input_fn or the model_fn is called wrongly or returns something else than it should, or the
            towers differ.

    Source:
        Evaluation with ``eval_distribute`` of TensorFlow 1's estimators, which mirrors the variables.
    """
    tf.set_random_seed(parts.config.tf_random_seed)
    global_step = get_global_step_var()
    inputs = call_distributed_input_fn(given, ModeKeys.EVAL, strategy, params=parts.params, config=parts.config)
    devices = strategy.worker_devices
    own = [select_device(device, (inputs.features, inputs.labels)) for device in devices]

    def call(index: int) -> EstimatorSpec:
        features, labels = own[index]
        return call_model_fn(parts.model_fn, features, labels, ModeKeys.EVAL, params=parts.params, config=parts.config)

    replication = replication_over(devices)
    towers = build_towers(call, replication, ModeKeys.EVAL, averages_losses=False)
    spec = join_towers(towers, ModeKeys.EVAL, replication.consolidation_device)
    return BuiltModel(inputs, spec._replace(loss=_whole_loss(spec.loss, len(towers))), global_step)


def _whole_loss(total: tf.Tensor, num_towers: int) -> tf.Tensor:
    """Return the loss of all towers, made of its sum."""
    return total if get_loss_reduction() == tf.VariableAggregation.SUM else total / num_towers
