"""A small residual network, and the pyramid of its features: one map for each scale, all with as many channels.

Source:
    Lin et al., "Feature Pyramid Networks for Object Detection", https://arxiv.org/abs/1612.03144
    He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
    Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494 (a batch of one image has no statistics)
"""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import Conv2D, FixedUnPooling, GroupNorm, MaxPooling, argscope

STRIDES = (4, 8, 16, 32)
"""By how much each map of the pyramid is smaller than the image."""


def norm_relu(x, name=None):
    """Normalise by groups of four channels, and apply a ReLU."""
    return tf.nn.relu(norm(x))


def norm(x, name=None):
    return GroupNorm("gn", x, group=int(x.shape[-1]) // 4)


def residual(x, channels, stride):
    """Return x plus two convolutions of it; [B, H / stride, W / stride, channels]."""
    residue = Conv2D("conv1", x, channels, 3, strides=stride, activation=norm_relu)
    residue = Conv2D("conv2", residue, channels, 3, activation=norm)
    if stride > 1 or int(x.shape[-1]) != channels:
        x = Conv2D("shortcut", x, channels, 1, strides=stride, activation=norm)
    return tf.nn.relu(x + residue)


def bottom_up(image, width, blocks):
    """Return the features of four scales, the finest first, of an image, [B, H, W, 3].

    Args:
        image: its sides are multiples of 32.
        width: the number of channels of the first; each has twice those of the one before.
        blocks: how many blocks each scale has.
    """
    features = []
    with argscope(Conv2D, use_bias=False, kernel_initializer=tf.initializers.he_normal()):
        x = Conv2D("conv0", image, width, 5, strides=2, activation=norm_relu)  # [B, H/2, W/2, width]
        x = MaxPooling("pool0", x, 3, strides=2, padding="same")  # [B, H/4, W/4, width]
        for scale, count in enumerate(blocks):
            for block in range(count):
                with tf.variable_scope(f"group{scale}/block{block}"):
                    x = residual(x, width * 2**scale, stride=2 if scale > 0 and block == 0 else 1)
            features.append(x)
    return features


def pyramid(features, channels):
    """Return maps of the same sizes, into which what coarser ones know has come down; channels each."""
    with tf.variable_scope("fpn"):
        sides = [Conv2D(f"lateral{k}", x, channels, 1) for k, x in enumerate(features)]
        merged = [sides.pop()]
        while sides:
            twice = FixedUnPooling(f"up{len(sides) - 1}", merged[0], 2, np.ones([2, 2]))
            merged.insert(0, sides.pop() + twice)
        return [Conv2D(f"posthoc{k}", x, channels, 3) for k, x in enumerate(merged)]
