"""Batch normalisation and ReLU in one: the activation of most convolutions."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.batch_norm import BatchNorm
from tpack.models.registry import layer_register

__all__ = ["BNReLU"]


@layer_register(use_scope=None)
def BNReLU(x: Any, name: str | None = None) -> Any:  # noqa: N802
    """Normalise by the batch and apply a ReLU; as an activation, for a convolution without bias.

    Args:
        x: a feature map or features. Options of `BatchNorm` come from its ``argscope``.
        name: of the result.

    Creates:
        The variables of a `BatchNorm` called ``bn``.

    Example:
        with argscope(Conv2D, activation=BNReLU, use_bias=False):
            x = Conv2D("conv0", image, 64, 7, strides=2)
    """
    return tf.nn.relu(BatchNorm("bn", x), name=name)
