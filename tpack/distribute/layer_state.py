"""What becomes of the state of Keras layers, which say nothing of how it is kept in several towers.

A batch normalisation of Keras assigns to its moving averages wherever it is called. In a strategy's tower they are made
local to towers, as those of tpack's own layer are; so is the state of random numbers.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import current_mode
from tpack.tower.context import TowerContext as Tower


def with_layer_state(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a variable creator's arguments, for state of a Keras layer such that it is local to towers.

    Args:
        kwargs: the arguments. Those of Keras say nothing of ``use_resource``; its state is what is not trained and has
            neither a synchronization nor an aggregation of its own.

    Returns:
        The arguments, with the mean over towers as the aggregation of floating-point numbers, and the first tower's
        value as that of others.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        Own; the layers of the seed ``distribute`` say so themselves.
    """
    # Both enumerations call what they do by itself 0.
    says_how = any(getattr(kwargs.get(key), "value", 0) for key in ("synchronization", "aggregation"))
    is_trained = kwargs.get("trainable") is not False
    if "use_resource" in kwargs or says_how or is_trained or not isinstance(current_mode(), Tower):
        return kwargs
    is_floating = tf.as_dtype(kwargs.get("dtype") or tf.float32).is_floating
    return {
        **kwargs,
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.MEAN if is_floating else tf.VariableAggregation.ONLY_FIRST_TOWER,
    }
