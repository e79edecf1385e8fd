"""Build the graph of one run of an Estimator: its input and its model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.estimator.inputs import Inputs
from tpack.estimator.model_fn import ModelFn, call_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import TowerContext


@dataclass(frozen=True)
class ModelParts:
    """What an Estimator builds each of its graphs from."""

    model_fn: ModelFn
    params: Any
    config: RunConfig
    model_dir: str


@dataclass(frozen=True)
class BuiltModel:
    """A model in a graph."""

    inputs: Inputs
    spec: EstimatorSpec
    global_step: Any


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
