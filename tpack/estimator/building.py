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
from tpack.utils.validation import check_arguments, check_function, mismatch

ModelFn = Callable[..., EstimatorSpec]

ARGUMENTS = ("features", "labels", "mode", "params", "config")
_RESULTS = "/device:CPU:0"


def check_model_fn(model_fn: ModelFn, params: object = None) -> None:
    """Check the arguments of a model_fn.

    Args:
        model_fn: the function.
        params: its parameters; None for none.

    Raises:
        ConfigError: It is not a function, does not take the features or the parameters, or requires other arguments.
    """
    check_function("an Estimator", "model_fn", model_fn)
    if not takes_argument(model_fn, "features"):
        raise ConfigError(f"model_fn {model_fn!r} does not take features: expected this argument")
    if params is not None and not takes_argument(model_fn, "params"):
        raise ConfigError(f"model_fn {model_fn!r} does not take params: expected this argument where params are given")
    unknown = [name for name in required_arguments(model_fn) if name not in ARGUMENTS]
    if unknown:
        expected = f"only {', '.join(ARGUMENTS)}"
        raise ConfigError(f"model_fn {model_fn!r} requires {', '.join(unknown)}: expected {expected}")


def call_model_fn(
    model_fn: ModelFn,
    features: object,
    labels: object,
    mode: str,
    *,
    params: object = None,
    config: RunConfig | None = None,
) -> EstimatorSpec:
    """Call a model_fn with those of the optional arguments that it takes, and check its result.

    Args:
        model_fn: the function.
        features: the input.
        labels: the labels, or None.
        mode: one of `ModeKeys`.
        params: the function gets a copy, which it may change.
        config: the `RunConfig`.

    Raises:
        ConfigError: There are labels that it does not take, or it does not return an EstimatorSpec of this mode.
    """
    if labels is not None and not takes_argument(model_fn, "labels"):
        raise ConfigError(f"model_fn {model_fn!r} does not take labels: expected this argument where labels are given")
    optional = {"labels": labels, "mode": mode, "params": copy.deepcopy(params), "config": config}
    spec = call_with_accepted(model_fn, optional, features=features)
    if not isinstance(spec, EstimatorSpec):
        raise ConfigError(f"model_fn {model_fn!r} returned {spec!r}: expected an EstimatorSpec")
    if spec.mode != mode:
        raise ConfigError(f"model_fn {model_fn!r} returned a spec of mode {spec.mode!r}: expected {mode!r}")
    return spec


@check_arguments
class WarmStartSettings(NamedTuple):
    """The variables that start with values from the checkpoint of another model.

    Attributes:
        ckpt_to_initialize_from: a checkpoint, or a directory of them.
        vars_to_warm_start: a regular expression for names of trainable variables, a list of them for any variables, or
            None for the renamed ones only.
        var_name_to_vocab_info: name to ``tf.train.VocabInfo``, for embeddings with a changed vocabulary.
        var_name_to_prev_var_name: name to the name in the checkpoint, for renamed variables.
    """

    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[str] | Sequence[tf.Variable] | None = ".*"
    var_name_to_vocab_info: Mapping[str, tf.train.VocabInfo] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ModelParts:
    """The parts of an Estimator from which it builds each graph."""

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
    """Build input and model into the current graph, the model as a tower. In prediction, labels are dropped.

    Raises:
        ConfigError: As `call_model_fn`.
    """
    tf.set_random_seed(parts.config.tf_random_seed)
    global_step = get_global_step_var()
    inputs = make_inputs()
    labels = None if mode == ModeKeys.PREDICT else inputs.labels
    # Layers read is_training from the tower. A replicated model_fn leaves it for its own towers.
    with TowerContext("", is_training=mode == ModeKeys.TRAIN, device=parts.config.device_fn):
        spec = call_model_fn(parts.model_fn, inputs.features, labels, mode, params=parts.params, config=parts.config)
    return BuiltModel(inputs, spec, global_step)


def make_warm_start_settings(warm_start_from: str | WarmStartSettings | None) -> WarmStartSettings | None:
    """Return settings as they are, None, or those of a checkpoint's path for all trainable variables; refuse others."""
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, str):
        return WarmStartSettings(warm_start_from)
    raise ConfigError(mismatch("an Estimator", "warm_start_from", warm_start_from, "a path or WarmStartSettings"))


def warm_start(settings: WarmStartSettings) -> None:
    """Change the initialisers of the current graph's variables to read a checkpoint.

    Raises:
        CheckpointError: The checkpoint does not exist.
    """
    path = resolve_checkpoint(settings.ckpt_to_initialize_from)
    logger.info(f"The model starts with values from {path}.")
    tf.train.warm_start(path, *settings[1:])


def build_distributed_training(parts: ModelParts, given: GivenInput, strategy: DistributionStrategy) -> BuiltModel:
    """Build input and model for training into the current graph, in the towers of a strategy.

    Args:
        parts: the model, with any ``tf.train.Optimizer``.
        given: an input_fn that returns a Dataset, or data.
        strategy: the strategy.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its train op groups those of
        all towers; the rest of its spec is the first tower's.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: As `call_model_fn` and `call_distributed_input_fn`.
        StrategyError: A single tower changes a value shared by all.
        TowerMismatchError: The towers differ in their variables or optimizers.

    Source:
        Training with ``train_distribute`` of TensorFlow 1's estimators.
    """
    specs: dict[int, EstimatorSpec] = {}

    def build_tower(features: object, labels: object) -> None:
        tower = current_tower_context()
        # A spec is more than tensors, so its value in a graph copy is unknown.
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
        given: an input_fn that returns a Dataset, or data. Batches at the end for fewer than K towers are dropped.
        strategy: gives the devices.

    Returns:
        The model. Its loss is the mean over the towers, or the sum if losses are summed; its metrics are over all K
        batches.

    Shapes:
        Features and labels: [B, ...] for each tower.

    Raises:
        ConfigError: As `call_model_fn` and `call_distributed_input_fn`, or the towers differ.

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
    """Return the loss of all towers from its sum."""
    return total if get_loss_reduction() == tf.VariableAggregation.SUM else total / num_towers
