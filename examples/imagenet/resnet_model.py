"""Residual networks: plain, with activation before the convolutions, squeezed and excited, or in groups.

Source:
    He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
    He et al., "Identity Mappings in Deep Residual Networks", https://arxiv.org/abs/1603.05027
    Hu et al., "Squeeze-and-Excitation Networks", https://arxiv.org/abs/1709.01507
    Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", https://arxiv.org/abs/1611.05431
    Goyal et al., "Accurate, Large Minibatch SGD", https://arxiv.org/abs/1706.02677 (the last gamma begins at zero)
"""

from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.models import AvgPooling, BatchNorm, BNReLU, Conv2D, FullyConnected, GlobalAvgPooling, MaxPooling
from tpack.tfutils import argscope

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""How many blocks each of the four groups has, by the depth of the network."""

VARIANTS = ("resnet", "preact", "se", "resnext")
BOTTLENECK_DEPTH = 50
"""From this depth on, blocks are bottlenecks."""

CARDINALITY = 32
SQUEEZE = 16


@dataclass(frozen=True)
class ResNet:
    """Computes the logits of images.

    Attributes:
        depth: 18, 34, 50, 101 or 152.
        variant: ``"resnet"``; ``"preact"``, activation before the convolutions; ``"se"``, squeeze and excitation;
            ``"resnext"``, 3 x 3 convolutions in 32 groups, for depths from 50 on.
        num_classes: how many logits there are.
        data_format: ``"channels_last"`` or ``"channels_first"``.
    """

    depth: int = 50
    variant: str = "resnet"
    num_classes: int = 1000
    data_format: str = "channels_last"

    def __call__(self, image):
        """Return the logits [batch, classes] of images [batch, height, width, 3]."""
        if self.data_format == "channels_first":
            image = tf.transpose(image, [0, 3, 1, 2])
        he_normal = tf.initializers.variance_scaling(scale=2.0, mode="fan_out")
        layers = [Conv2D, BatchNorm, MaxPooling, AvgPooling, GlobalAvgPooling]
        convolution = argscope(Conv2D, use_bias=False, kernel_initializer=he_normal)
        with argscope(layers, data_format=self.data_format), convolution:
            features = Conv2D("conv0", image, 64, 7, strides=2, activation=BNReLU)
            features = MaxPooling("pool0", features, 3, strides=2, padding="same")
            for group, num_blocks in enumerate(BLOCKS[self.depth]):
                for block in range(num_blocks):
                    with tf.variable_scope(f"group{group}/block{block}"):
                        stride = 2 if group > 0 and block == 0 else 1
                        features = self._block(features, 64 * 2**group, stride, is_first=group == block == 0)
            if self.variant == "preact":
                features = BNReLU("last", features)
            features = GlobalAvgPooling("gap", features)
        return FullyConnected(
            "linear", features, self.num_classes, kernel_initializer=tf.random_normal_initializer(stddev=0.01)
        )

    def _block(self, features, width, stride, *, is_first):
        """Add a block to its input, which is projected where the block changes its shape."""
        if self.variant == "preact":
            return self._preact_block(features, width, stride, is_first=is_first)
        residue = self._convolutions(features, width, stride, last=_norm_from_zero)
        if self.variant == "se":
            residue = self._excite(residue)
        return tf.nn.relu(residue + self._shortcut(features, residue, stride, _norm))

    def _preact_block(self, features, width, stride, *, is_first):
        # The very first block gets features that are normalised and active already.
        active = features if is_first else BNReLU("preact", features)
        residue = self._convolutions(active, width, stride, last=None)
        is_projected = self._changes_shape(features, residue, stride)
        return residue + self._shortcut(active if is_projected else features, residue, stride, None)

    def _convolutions(self, features, width, stride, *, last):
        """Return two convolutions of 3 x 3, or one between two of 1 x 1; the last has another activation."""
        if self.depth < BOTTLENECK_DEPTH:
            features = Conv2D("conv1", features, width, 3, strides=stride, activation=BNReLU)
            return Conv2D("conv2", features, width, 3, activation=last)
        groups, inner = (CARDINALITY, 2 * width) if self.variant == "resnext" else (1, width)
        features = Conv2D("conv1", features, inner, 1, activation=BNReLU)
        features = Conv2D("conv2", features, inner, 3, strides=stride, split=groups, activation=BNReLU)
        return Conv2D("conv3", features, 4 * width, 1, activation=last)

    def _shortcut(self, features, residue, stride, activation):
        if not self._changes_shape(features, residue, stride):
            return features
        channels = residue.shape[self._channel_axis]
        return Conv2D("shortcut", features, channels, 1, strides=stride, activation=activation)

    def _changes_shape(self, features, residue, stride):
        return stride > 1 or features.shape[self._channel_axis] != residue.shape[self._channel_axis]

    def _excite(self, features):
        """Weigh each channel by what all channels are on average."""
        channels = int(features.shape[self._channel_axis])
        weights = GlobalAvgPooling("squeeze", features)
        weights = FullyConnected("squeeze1", weights, channels // SQUEEZE, activation=tf.nn.relu)
        weights = FullyConnected("squeeze2", weights, channels, activation=tf.nn.sigmoid)
        shape = [-1, channels, 1, 1] if self._channel_axis == 1 else [-1, 1, 1, channels]
        return features * tf.reshape(weights, shape)

    @property
    def _channel_axis(self):
        return 1 if self.data_format == "channels_first" else 3


def _norm(features, name=None):
    """Normalise by the batch, without an activation."""
    return BatchNorm("bn", features)


def _norm_from_zero(features, name=None):
    """Normalise with a factor that begins at zero, so that a new block is the identity."""
    return BatchNorm("bn", features, gamma_initializer=tf.zeros_initializer())
