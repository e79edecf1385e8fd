"""Build the graph of one run of an Estimator: its input, its model, and other first values than the model's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.inputs import Inputs
from tpack.estimator.model_fn import ModelFn, call_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.tfutils.checkpoint import resolve_checkpoint
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import TowerContext
from tpack.utils import logger
from tpack.utils.validation import check_arguments


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
