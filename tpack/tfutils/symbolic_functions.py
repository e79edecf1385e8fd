"""Small functions of tensors that models of many fields share: accuracy, shapes, losses and debugging."""

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.scope_utils import writes_summaries
from tpack.tfutils.summary import add_scalar_summary
from tpack.tfutils.summary import rms as _rms
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import mismatch

__getattr__ = on_unknown_name(__name__)

__all__ = [
    "accuracy",
    "batch_flatten",
    "class_balanced_sigmoid_cross_entropy",
    "flatten",
    "get_scalar_var",
    "guided_relu",
    "prediction_incorrect",
    "print_stat",
    "psnr",
    "rms",
    "saliency_map",
]
_GUIDED = "TpackGuidedRelu"


def accuracy(logits: tf.Tensor, label: tf.Tensor, topk: int = 1, name: str = "accuracy") -> tf.Tensor:
    """Return the share of rows whose label is among the ``topk`` largest logits, as a scalar.

    Args:
        logits: (B, C).
        label: (B,), integers.
        topk: the number of guesses.
        name: the name of the result.
    """
    return tf.reduce_mean(1.0 - prediction_incorrect(logits, label, topk, name="incorrect"), name=name)


def prediction_incorrect(
    logits: tf.Tensor, label: tf.Tensor, topk: int = 1, name: str = "incorrect_vector"
) -> tf.Tensor:
    """Return 0 for each row whose label is among the ``topk`` largest logits, and 1 for the others.

    Args:
        logits: (B, C).
        label: (B,), integers.
        topk: the number of guesses.
        name: the name of the result; ``ClassificationError`` looks for the default.

    Shapes:
        (B,), float32.
    """
    correct = tf.nn.in_top_k(tf.cast(logits, tf.float32), label, topk)
    return tf.cast(tf.logical_not(correct), tf.float32, name=name)


def flatten(x: tf.Tensor) -> tf.Tensor:
    """Return all elements of a tensor as a vector."""
    return tf.reshape(x, [-1])


def batch_flatten(x: tf.Tensor) -> tf.Tensor:
    """Return a tensor with all dimensions but the first joined.

    Shapes:
        (B, ...) to (B, N); N is static if the dimensions are, and then B may be unknown or 0.
    """
    sizes = x.shape[1:]
    if sizes.is_fully_defined():
        num_rows = tf.compat.dimension_value(x.shape[0])
        return tf.reshape(x, [tf.shape(x)[0] if num_rows is None else num_rows, sizes.num_elements()])
    return tf.reshape(x, [tf.shape(x)[0], tf.reduce_prod(tf.shape(x)[1:])])


def class_balanced_sigmoid_cross_entropy(
    logits: tf.Tensor, label: tf.Tensor, name: str = "cross_entropy_loss"
) -> tf.Tensor:
    """Return the mean sigmoid cross entropy with the rare class weighted up, for labels such as edges in an image.

    A positive weighs as much as the share of negatives, and vice versa. Without positives loss and gradient are 0.

    Args:
        logits: of any shape.
        label: of the same shape, 0 or 1.
        name: the name of the result, a scalar.

    Source:
        Xie and Tu, Holistically-Nested Edge Detection, 2015.
    """
    positive = tf.cast(label, logits.dtype)
    share_negative = tf.reduce_mean(1.0 - positive)
    loss = share_negative * positive * tf.nn.softplus(-logits)
    loss += (1.0 - share_negative) * (1.0 - positive) * tf.nn.softplus(logits)
    return tf.reduce_mean(loss, name=name)


def psnr(prediction: tf.Tensor, ground_truth: tf.Tensor, maxp: float | None = None, name: str = "psnr") -> tf.Tensor:
    """Return the peak signal-to-noise ratio of two images, or batches, of one shape in decibels; infinite if equal.

    Args:
        prediction: an image or several.
        ground_truth: of the same shape.
        maxp: the largest value of a pixel; None means 1.
        name: the name of the result, a scalar.

    Raises:
        ConfigError: ``maxp`` is not above 0.
    """
    peak = 1.0 if maxp is None else float(maxp)
    if not peak > 0:
        raise ConfigError(mismatch("psnr", "maxp", maxp, "a number above 0"))
    error = tf.reduce_mean(tf.square(prediction - ground_truth))
    return tf.multiply(tf.math.log(peak**2 / error), 10 / math.log(10), name=name)


def rms(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Return the root mean square of all elements of a tensor of floating-point numbers."""
    return _rms(x) if name is None else tf.identity(_rms(x), name=name)


def get_scalar_var(name: str, init_value: float, summary: bool = False, trainable: bool = False) -> tf.Variable:
    """Return a scalar float32 variable.

    Args:
        name: the name of the variable.
        init_value: its first value.
        summary: write its value as the summary ``NAME-summary``, in the main training tower.
        trainable: whether it is trained.
    """
    variable = tf.get_variable(name, initializer=float(init_value), trainable=trainable, use_resource=True)
    if summary and writes_summaries():
        add_scalar_summary(f"{name}-summary", variable)
    return variable


def print_stat(x: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """Return ``x``, and print its shape, mean, root mean square and first values on standard error when it is computed.

    Args:
        x: a tensor of numbers.
        message: its name in the output; by default the tensor's.

    Example:
        features = print_stat(features, "features")
    """
    stats = ["shape", tf.shape(x), "mean", tf.reduce_mean(x)]
    if x.dtype.is_floating:
        stats += ["rms", rms(x)]
    line = tf.print(f"{message or x.op.name}:", *stats, "values", flatten(x), summarize=10)
    with tf.control_dependencies([line]):
        return tf.identity(x, name="print_stat")


def saliency_map(output: tf.Tensor, input: tf.Tensor, name: str = "saliency_map") -> tf.Tensor:
    """Return the gradient of each row's largest output with respect to the input, of the input's shape.

    Args:
        output: of shape (B, C), such as logits.
        input: the tensor that it was computed from, such as images.
        name: the name of the result.

    Source:
        Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks, 2013.
    """
    (gradient,) = tf.gradients(tf.reduce_max(output, axis=1), [input])
    return tf.identity(gradient, name=name)


@contextmanager
def guided_relu() -> Iterator[None]:
    """Give the ReLUs that are built in the block a gradient that keeps only positive values.

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


@functools.cache
def _register_guided_gradient() -> None:
    """Register the gradient by its name, once for the process."""

    @tf.RegisterGradient(_GUIDED)
    def guided_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.ReluGrad(gradients=tf.nn.relu(gradient), features=op.outputs[0])
