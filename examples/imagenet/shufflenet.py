"""Train ShuffleNet of version 1 or 2 on ImageNet (ILSVRC 2012): networks for machines with little to spend.

    python examples/imagenet/shufflenet.py --data /data/ilsvrc12 --towers 8 --batch 1024 --version 2
    python examples/imagenet/shufflenet.py --data /data/ilsvrc12 --version 1 --ratio 0.5 --groups 8
    python examples/imagenet/shufflenet.py --fake --towers 2 --batch 32

Parameters and multiply-adds for an image of 224 x 224 are as published: of version 2 with a ratio of 1, 2,278,604 and
145 million; of version 1 with a ratio of 1 and 3 groups, 1,865,728 and 137 million. The recipe is that of the papers: a
learning rate that falls to zero on a straight line, in place of steps, and little weight decay. The options are those
of `resnet.py`, whose docstring says where the data are and what is written.

Source:
    Zhang et al., "ShuffleNet: An Extremely Efficient Convolutional Neural Network for Mobile Devices",
    https://arxiv.org/abs/1707.01083; Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
    Design", https://arxiv.org/abs/1807.11164
"""

from dataclasses import dataclass

import tensorflow.compat.v1 as tf
from imagenet_recipe import Recipe, make_parser, run

from tpack import (
    AvgPooling,
    BatchNorm,
    BNReLU,
    Conv2D,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    argscope,
    layer_register,
)

# Channels of the first stage of version 1 at a ratio of 1, by the number of groups; they double from stage to stage.
CHANNELS_1 = {1: 144, 2: 200, 3: 240, 4: 272, 8: 384}
# Channels of the three stages of version 2 and of the last convolution, by the ratio.
CHANNELS_2 = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
UNITS = 4, 8, 4
FIRST = 24


@layer_register(log_shape=True)
def DepthConv(features, kernel_size=3, stride=1):  # noqa: N802
    """Convolve each channel by itself, and normalise."""
    shape = [kernel_size, kernel_size, features.shape[3], 1]
    he_normal = tf.initializers.variance_scaling(scale=2.0, mode="fan_out")
    weights = tf.get_variable("W", shape, initializer=he_normal, dtype=features.dtype)
    features = tf.nn.depthwise_conv2d(features, weights, [1, stride, stride, 1], padding="SAME")
    return BatchNorm("bn", features)


def shuffle(features, num_groups):
    """Let the channels of each group be spread over all, so that the next groups have some of each."""
    _, height, width, channels = features.shape.as_list()
    x = tf.reshape(features, [-1, height, width, num_groups, channels // num_groups])
    return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [-1, height, width, channels])


@dataclass(frozen=True)
class ShuffleNet1:
    """Computes the logits of images, by 1 x 1 convolutions in groups whose channels are shuffled.

    Attributes:
        groups: how many.
        ratio: of the numbers of channels to those of the paper's network "1x".
        num_classes: how many logits there are.
    """

    groups: int = 3
    ratio: float = 1.0
    num_classes: int = 1000

    def __call__(self, image):
        """Return the logits, [B, classes], of images, [B, S, S, 3]."""
        with argscope(Conv2D, use_bias=False):
            x = Conv2D("conv1", image, self._first, 3, strides=2, activation=BNReLU)  # [B, S/2, S/2, 24]
            x = MaxPooling("pool1", x, 3, strides=2, padding="same")  # [B, S/4, S/4, 24]
            for stage, num_units in enumerate(UNITS):
                channels = int(CHANNELS_1[self.groups] * self.ratio) * 2**stage
                for unit in range(num_units):
                    with tf.variable_scope(f"stage{stage + 2}/block{unit}"):
                        x = self._unit(x, channels, stride=2 if unit == 0 else 1)
            x = GlobalAvgPooling("gap", x)
        return FullyConnected("linear", x, self.num_classes)

    @property
    def _first(self):
        return int(FIRST * self.ratio)

    def _unit(self, features, channels, stride):
        """Return features of so many channels, those that came among them or added to them."""
        came = int(features.shape[3])
        # There are too few channels to be cut before the first unit.
        split = self.groups if came > self._first else 1
        x = Conv2D("conv1", features, channels // 4, 1, split=split, activation=BNReLU)
        x = DepthConv("dconv", shuffle(x, self.groups), stride=stride)
        x = Conv2D("conv2", x, channels - came if stride == 2 else channels, 1, split=self.groups)
        x = BatchNorm("conv2_bn", x)
        if stride == 1:
            return tf.nn.relu(features + x)
        return tf.nn.relu(tf.concat([AvgPooling("pool", features, 3, strides=2, padding="same"), x], axis=3))


@dataclass(frozen=True)
class ShuffleNet2:
    """Computes the logits of images, of whose channels half pass each unit as they are.

    Attributes:
        ratio: one of `CHANNELS_2`.
        num_classes: how many logits there are.
    """

    ratio: float = 1.0
    num_classes: int = 1000

    def __call__(self, image):
        """Return the logits, [B, classes], of images, [B, S, S, 3]."""
        *stages, last = CHANNELS_2[self.ratio]
        with argscope(Conv2D, use_bias=False, activation=BNReLU):
            x = Conv2D("conv1", image, FIRST, 3, strides=2)  # [B, S/2, S/2, 24]
            x = MaxPooling("pool1", x, 3, strides=2, padding="same")  # [B, S/4, S/4, 24]
            for stage, (num_units, channels) in enumerate(zip(UNITS, stages, strict=True)):
                for unit in range(num_units):
                    with tf.variable_scope(f"stage{stage + 2}/block{unit}"):
                        x = self._unit(x, channels, stride=2 if unit == 0 else 1)
            x = Conv2D("conv5", x, last, 1)  # [B, S/32, S/32, 1024]
            x = GlobalAvgPooling("gap", x)
        return FullyConnected("linear", x, self.num_classes)

    @staticmethod
    def _unit(features, channels, stride):
        """Return so many channels, half of which came another way."""
        passing, x = (features, features) if stride == 2 else tf.split(features, 2, axis=3)
        x = Conv2D("conv1", x, channels // 2, 1)
        x = Conv2D("conv2", DepthConv("dconv", x, stride=stride), channels // 2, 1)
        if stride == 2:
            passing = Conv2D("shortcut_conv", DepthConv("shortcut_dconv", passing, stride=2), channels // 2, 1)
        return shuffle(tf.concat([passing, x], axis=3), 2)


def make_network(options):
    if options.version == 1:
        return ShuffleNet1(options.groups, options.ratio, options.classes)
    return ShuffleNet2(options.ratio, options.classes)


RECIPE = Recipe(make_network, rate=0.125, epochs=240, weight_decay=4e-5, is_linear=True)


def main(argv=None):
    parser = make_parser(RECIPE, __doc__)
    parser.add_argument("--version", type=int, choices=(1, 2), default=2)
    parser.add_argument("--groups", type=int, choices=CHANNELS_1, default=3, help="of version 1 (default: 3)")
    parser.add_argument("--ratio", type=float, choices=CHANNELS_2, default=1.0, help="of channels (default: 1)")
    options = parser.parse_args(argv)
    if options.version == 1 and CHANNELS_1[options.groups] * options.ratio / 4 % options.groups:
        parser.error(f"channels at a ratio of {options.ratio} cannot be cut into {options.groups} groups")
    return run(RECIPE, parser, options)


if __name__ == "__main__":
    main()
