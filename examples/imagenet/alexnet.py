"""Train AlexNet on ImageNet (ILSVRC 2012): five convolutions, some in two groups, and three matrices.

    python examples/imagenet/alexnet.py --data /data/ilsvrc12 --towers 8 --batch 1024
    python examples/imagenet/alexnet.py --fake --towers 2 --batch 64

60,965,224 parameters and 724,406,816 multiply-adds for an image of 227 x 227, as published. The options are those of
`resnet.py`, whose docstring says where the data are and what is written.

Source:
    Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", NIPS 2012; and, for groups
    whose halves are equally large, the reference network of Caffe
"""

import tensorflow.compat.v1 as tf
from imagenet_recipe import Recipe, make_parser, run

from tpack import Conv2D, Dropout, FullyConnected, MaxPooling, argscope


def normalize(features):
    """Divide what neighbouring channels have in common; what the paper has in place of today's normalisation."""
    return tf.nn.local_response_normalization(features, depth_radius=2, bias=1.0, alpha=2e-5, beta=0.75)


def alexnet(image, num_classes=1000):
    """Return the logits, [B, classes], of images, [B, 227, 227, 3]."""
    init = tf.random_normal_initializer(stddev=0.01)
    with argscope(Conv2D, activation=tf.nn.relu, kernel_initializer=init), argscope(MaxPooling, pool_size=3, strides=2):
        x = Conv2D("conv1", image, 96, 11, strides=4, padding="valid")  # [B, 55, 55, 96]
        x = MaxPooling("pool1", normalize(x))  # [B, 27, 27, 96]
        x = Conv2D("conv2", x, 256, 5, split=2)  # [B, 27, 27, 256]
        x = MaxPooling("pool2", normalize(x))  # [B, 13, 13, 256]
        x = Conv2D("conv3", x, 384, 3)  # [B, 13, 13, 384]
        x = Conv2D("conv4", x, 384, 3, split=2)
        x = Conv2D("conv5", x, 256, 3, split=2)
        x = MaxPooling("pool3", x)  # [B, 6, 6, 256]
    with argscope(FullyConnected, kernel_initializer=tf.random_normal_initializer(stddev=0.005), activation=tf.nn.relu):
        x = Dropout(FullyConnected("fc6", x, 4096), rate=0.5)  # [B, 4096]
        x = Dropout(FullyConnected("fc7", x, 4096), rate=0.5)
    return FullyConnected("fc8", x, num_classes, kernel_initializer=init)


RECIPE = Recipe(
    lambda options: lambda image: alexnet(image, options.classes),
    rate=0.02,
    weight_decay=5e-4,
    label_smoothing=0.0,
    size=227,
)


def main(argv=None):
    parser = make_parser(RECIPE, __doc__)
    return run(RECIPE, parser, parser.parse_args(argv))


if __name__ == "__main__":
    main()
