"""Which pixels an output depends on: saliency maps, plain and by guided back-propagation."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

_GUIDED = "TpackGuidedRelu"


@contextmanager
def guided_relu() -> Iterator[None]:
    """Give the ReLUs that are built in the block a gradient that keeps only what is positive.

    Example:
        with guided_relu():
            logits = model(image)
        saliency_map(logits, image)

    Source:
        Springenberg et al., Striving for Simplicity: The All Convolutional Net, 2014.
    """
    _register_guided_gradient()
    with tf.get_default_graph().gradient_override_map({"Relu": _GUIDED}):
        yield


def saliency_map(output: Any, input: Any, name: str = "saliency_map") -> Any:
    """Return the gradient of each row's largest output with respect to the input.

    Args:
        output: of shape (B, C), such as logits.
        input: what it was computed from, such as images.
        name: of the tensor that is returned.

    Shapes:
        That of ``input``.

    Source:
        Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks, 2013.
    """
    (gradient,) = tf.gradients(tf.reduce_max(output, axis=1), [input])
    return tf.identity(gradient, name=name)


@functools.cache
def _register_guided_gradient() -> None:
    """Register the gradient, which TensorFlow takes by name and once for the life of the process."""

    @tf.RegisterGradient(_GUIDED)
    def guided_gradient(op: Any, gradient: Any) -> Any:
        return tf.raw_ops.ReluGrad(gradients=tf.nn.relu(gradient), features=op.outputs[0])
