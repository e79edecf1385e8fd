"""Costs for the size of weights: regularizers, and their sum for a model's cost.

Keras models work in a tower function of every trainer and predictor: make the layers in it, and give them
``training=self.training``. Layers have the same names in each tower, so towers and predictors that share variables find
them, and updates of moving averages run with each step. Layers that are made once and kept, such as attributes of a
`ModelDesc`, have one set of variables in one graph: they work where all towers share variables, in prediction and with
one tower, but not in replicated training or in a second graph.

Keras's own optimizers, ``compile``, ``fit`` and metrics do not work.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.variables import Regularizer
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.utils import logger
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments, mismatch

__getattr__ = on_unknown_name(__name__)

__all__ = ["add_keras_losses", "l1_regularizer", "l2_regularizer", "regularize_cost", "regularize_cost_from_collection"]


class KerasLayer(Protocol):
    """A layer or model of Keras 3 or of ``tf_keras``, as far as its losses go."""

    @property
    def losses(self) -> Sequence[tf.Tensor]:
        """The losses of its regularizers, and those it added itself."""

    @property
    def trainable_variables(self) -> Sequence[tf.Variable]:
        """The variables that the regularizers apply to."""


@check_arguments
def l1_regularizer(l1: float = 0.01) -> Regularizer:
    """Return a function from a tensor to ``l1`` times the sum of its absolute values, in float32 at least."""

    def regularizer(weights: tf.Tensor) -> tf.Tensor:
        return tf.multiply(tf.reduce_sum(tf.abs(_widen(weights))), l1, name="l1_regularizer")

    return regularizer


@check_arguments
def l2_regularizer(x: float) -> Regularizer:
    """Return a function from a tensor to ``x`` times half the sum of its squares, in float32 at least.

    Half, as in ``tf.nn.l2_loss`` and weight decay; Keras's function of this name takes the whole sum.
    """

    def regularizer(weights: tf.Tensor) -> tf.Tensor:
        return tf.multiply(tf.nn.l2_loss(_widen(weights)), x, name="l2_regularizer")

    return regularizer


@check_arguments
def regularize_cost(regex: str, func: Regularizer, name: str = "regularize_cost") -> tf.Tensor:
    """Return the sum of a cost for each trainable variable whose name matches.

    In a training tower these are the tower's own variables, by the names of the main tower: a replica called
    ``tower1/fc/W`` is found as ``fc/W``. In a tower for prediction the result is zero.

    Args:
        regex: searched for in the names of variables, which have no ``:0``.
        func: returns the cost of a variable, a scalar.
        name: the name of the result.

    Shapes:
        A scalar, float32 unless a cost is float64; zero is float64 if a trainable variable is.

    Example:
        cost = tf.add(cost, regularize_cost("fc.*/W", l2_regularizer(5e-4)), name="cost")
    """
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return _zero(name)
    found = [(n, v) for n, v in _trainable_variables(tower) if re.search(regex, n)]
    if tower is None or tower.is_main_tower:
        names = ", ".join(n for n, _ in found)
        logger.info(f"regularize_cost({regex!r}) finds {len(found)} variables{': ' if names else ''}{names}")
    with tf.name_scope(f"{name}_internals"):
        costs = [tf.convert_to_tensor(func(variable)) for _, variable in found]
    return _sum(costs, name)


@check_arguments
def regularize_cost_from_collection(name: str = "regularize_cost") -> tf.Tensor:
    """Return the sum of the collection REGULARIZATION_LOSSES.

    It has the losses of layers' regularizers in this training tower, also where towers share variables. A regularizer
    of ``tf.get_variable`` outside of layers counts only where the variable is created: in the main tower, if towers
    share it. In a tower for prediction the result is zero.

    Args:
        name: the name of the result.

    Shapes:
        As for `regularize_cost`.
    """
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return _zero(name)
    losses = [tf.convert_to_tensor(loss) for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)]
    if tower is None or tower.is_main_tower:
        logger.info(f"regularize_cost_from_collection() finds {len(losses)} losses in REGULARIZATION_LOSSES")
    return _sum(losses, name)


def add_keras_losses(*layers: KerasLayer) -> list[tf.Tensor]:
    """Add the ``losses`` of Keras layers and models, such as those of regularizers, to REGULARIZATION_LOSSES.

    `regularize_cost_from_collection` adds the collection to the cost. Nothing is added in a tower for prediction, or
    twice: layers of ``tpack.tf1.layers`` add their losses themselves.

    Args:
        *layers: layers that have been called; a model stands for all its layers.

    Returns:
        The losses.

    Raises:
        ConfigError: An argument is not a Keras layer.

    Example:
        net = keras.Sequential([keras.layers.Dense(10, kernel_regularizer="l2")])
        logits = net(image, training=self.training)
        add_keras_losses(net)
    """
    for layer in layers:
        if not hasattr(layer, "losses") or not hasattr(layer, "trainable_variables"):
            raise ConfigError(mismatch("add_keras_losses", "layers", layer, "Keras layers or models"))
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return []
    losses = [tf.convert_to_tensor(loss) for layer in layers for loss in layer.losses]
    there = {id(loss) for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)}
    for loss in losses:
        if id(loss) not in there:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
    return losses


def _trainable_variables(tower: TowerContext | None) -> list[tuple[str, tf.Variable]]:
    """Return the variables to regularise by their names in the main tower."""
    if tower is None:
        return [(variable.op.name, variable) for variable in tf.trainable_variables()]
    prefix = f"{tower.vs_name}/" if tower.has_own_variables and tower.vs_name else ""
    variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    return [(variable.op.name.removeprefix(prefix), variable) for variable in variables]


def _sum(costs: Sequence[tf.Tensor], name: str) -> tf.Tensor:
    if not costs:
        return _zero(name)
    dtype = tf.float64 if any(cost.dtype == tf.float64 for cost in costs) else tf.float32
    return tf.add_n([tf.cast(cost, dtype) for cost in costs], name=name)


def _zero(name: str) -> tf.Tensor:
    """Return zero in the dtype of costs of the model's variables."""
    is_wide = any(variable.dtype.base_dtype == tf.float64 for variable in tf.trainable_variables())
    return tf.constant(0, tf.float64 if is_wide else tf.float32, name=f"empty_{name}")


def _widen(weights: tf.Tensor) -> tf.Tensor:
    return tf.cast(weights, tf.float32) if weights.dtype.base_dtype.size < tf.float32.size else weights
