"""Blocks of a network as a module of their own, all of whose functions take defaults from argscope."""

import sys

import tensorflow.compat.v1 as tf

from tpack.models import BatchNorm, Conv2D
from tpack.tfutils import enable_argscope_for_function, enable_argscope_for_module


def branch(x, channels, num_layers=2):
    for number in range(num_layers):
        x = Conv2D(f"conv{number}", x, channels)
    return x


@enable_argscope_for_function
def Branch(name, x, channels, num_layers=2):  # noqa: N802
    with tf.variable_scope(name):
        return BatchNorm("bn", branch(x, channels, num_layers))


enable_argscope_for_module(sys.modules[__name__], log_shape=False)
