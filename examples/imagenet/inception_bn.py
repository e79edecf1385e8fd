"""Train Inception with batch normalisation on ImageNet (ILSVRC 2012), the network that came with that idea.

    python examples/imagenet/inception_bn.py --data /data/ilsvrc12 --towers 8 --batch 512
    python examples/imagenet/inception_bn.py --fake --towers 2 --batch 16

11,295,240 parameters and 2.0 thousand million multiply-adds for an image of 224 x 224, as published. The options are
those of `resnet.py`, whose docstring says where the data are and what is written.

Source:
    Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
    https://arxiv.org/abs/1502.03167
"""

import tensorflow.compat.v1 as tf
from imagenet_recipe import Recipe, make_parser, run

from tpack import AvgPooling, BNReLU, Conv2D, FullyConnected, GlobalAvgPooling, MaxPooling, argscope

# Channels of the 1 x 1 convolution, of the one before the 3 x 3 and of that, of the one before the two 3 x 3 and of
# these, and of the one after pooling. Where there are none of the first, the block halves height and width.
BLOCKS = {
    "3a": (64, 64, 64, 64, 96, 32),
    "3b": (64, 64, 96, 64, 96, 64),
    "3c": (0, 128, 160, 64, 96, 0),
    "4a": (224, 64, 96, 96, 128, 128),
    "4b": (192, 96, 128, 96, 128, 128),
    "4c": (160, 128, 160, 128, 160, 128),
    "4d": (96, 128, 192, 160, 192, 128),
    "4e": (0, 128, 192, 192, 256, 0),
    "5a": (352, 192, 320, 160, 224, 128),
    "5b": (352, 192, 320, 192, 224, 128),
}


def inception(features, sizes, *, pooling=AvgPooling):
    """Join what convolutions of several sizes make of the same features.

    Args:
        features: [B, S, S, C].
        sizes: a row of `BLOCKS`.
        pooling: of the last branch, where the block keeps height and width.

    Returns:
        [B, S, S, D], or [B, S / 2, S / 2, D] of a block that halves.
    """
    single, before_3, of_3, before_33, of_33, after_pool = sizes
    stride = 1 if single else 2
    branches = [Conv2D("1x1", features, single, 1)] if single else []
    branches.append(Conv2D("3x3", Conv2D("3x3_before", features, before_3, 1), of_3, 3, strides=stride))
    x = Conv2D("33_first", Conv2D("33_before", features, before_33, 1), of_33, 3)
    branches.append(Conv2D("33_second", x, of_33, 3, strides=stride))
    if single:
        pooled = pooling("pool", features, 3, strides=1, padding="same")
        branches.append(Conv2D("after_pool", pooled, after_pool, 1))
    else:
        branches.append(MaxPooling("pool", features, 3, strides=2, padding="same"))
    return tf.concat(branches, axis=3)


def inception_bn(image, num_classes=1000):
    """Return the logits, [B, classes], of images, [B, 224, 224, 3]."""
    he_normal = tf.initializers.variance_scaling(scale=2.0, mode="fan_in")
    with argscope(Conv2D, activation=BNReLU, kernel_initializer=he_normal):
        x = Conv2D("conv1", image, 64, 7, strides=2)  # [B, 112, 112, 64]
        x = MaxPooling("pool1", x, 3, strides=2, padding="same")  # [B, 56, 56, 64]
        x = Conv2D("conv2", Conv2D("conv2_before", x, 64, 1), 192, 3)  # [B, 56, 56, 192]
        x = MaxPooling("pool2", x, 3, strides=2, padding="same")  # [B, 28, 28, 192]
        for name, sizes in BLOCKS.items():
            with tf.variable_scope(name):
                x = inception(x, sizes, pooling=MaxPooling if name == "5b" else AvgPooling)
        x = GlobalAvgPooling("gap", x)  # [B, 1024]
    return FullyConnected("linear", x, num_classes)


RECIPE = Recipe(lambda options: lambda image: inception_bn(image, options.classes))


def main(argv=None):
    parser = make_parser(RECIPE, __doc__)
    return run(RECIPE, parser, parser.parse_args(argv))


if __name__ == "__main__":
    main()
