"""What the loss says about how gradients are to be brought together."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import last_loss_reduction


def get_loss_reduction() -> Any:
    """Return how towers' gradients are aggregated, after the last loss of ``tf.losses`` in the current graph.

    Returns:
        ``tf.VariableAggregation.SUM`` if that loss was made with ``tf.losses.Reduction.SUM``, else, or if there is
        none, ``tf.VariableAggregation.MEAN``.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The function of the same name in the seed ``distribute``.
    """
    is_sum = last_loss_reduction() == tf.losses.Reduction.SUM
    return tf.VariableAggregation.SUM if is_sum else tf.VariableAggregation.MEAN
