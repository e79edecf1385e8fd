"""Losses that Keras layers hold, in the collection that other layers' losses are in.

Keras models work in a tower function of every trainer and predictor: make the layers in it, and give them
``training=self.training``. Layers are called the same in each tower, towers and predictors that share variables find
them by these names, and updates of moving averages run with each step. Layers that are made once and kept, as
attributes of a `ModelDesc` for example, have one set of variables in one graph: they work where all towers share
variables, in prediction, and with one tower, and not in replicated training or in a second graph.

What does not work: Keras's own optimizers, ``compile`` and ``fit``, and metrics.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.context import get_current_tower_context

__all__ = ["add_keras_losses"]


def add_keras_losses(*layers: Any) -> list[Any]:
    """Add what Keras layers and models have in ``losses``, such as those of regularizers, to REGULARIZATION_LOSSES.

    `regularize_cost_from_collection` adds the collection to the cost. In a tower for prediction nothing is added.

    Args:
        *layers: called before; a model stands for all its layers.

    Returns:
        The losses.

    Raises:
        ConfigError: It is no Keras layer.

    Example:
        net = keras.Sequential([keras.layers.Dense(10, kernel_regularizer="l2")])
        logits = net(image, training=self.training)
        add_keras_losses(net)
    """
    for layer in layers:
        if not hasattr(layer, "losses") or not hasattr(layer, "trainable_variables"):
            raise ConfigError(f"add_keras_losses wants Keras layers or models, got {layer!r}")
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return []
    losses = [tf.convert_to_tensor(loss) for layer in layers for loss in layer.losses]
    for loss in losses:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
    return losses
