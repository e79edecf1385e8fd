"""Train VGG-16 on ImageNet (ILSVRC 2012): as it was published, or normalised by the batch or in groups of channels.

    python examples/imagenet/vgg.py --data /data/ilsvrc12 --towers 8 --batch 256 --norm BN
    python examples/imagenet/vgg.py --fake --towers 2 --batch 16 --norm GN

138,357,544 parameters, 138,365,992 with a normalisation, and 15,470,264,320 multiply-adds for an image of 224 x 224, as
published. The options are those of `resnet.py`, whose docstring says where the data are and what is written.

Source:
    Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
    https://arxiv.org/abs/1409.1556; Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494
"""

from dataclasses import dataclass

import tensorflow.compat.v1 as tf
from imagenet_recipe import Recipe, make_parser, run

from tpack import BatchNorm, Conv2D, Dropout, FullyConnected, GroupNorm, MaxPooling, argscope

NORMS = {"none": None, "BN": BatchNorm, "GN": GroupNorm}
# How many convolutions each stage has, and of how many channels.
STAGES = (2, 64), (2, 128), (3, 256), (3, 512), (3, 512)


@dataclass(frozen=True)
class VGG:
    """Computes the logits of images.

    Attributes:
        norm: one of `NORMS`: what comes between a convolution and its ReLU.
        num_classes: how many logits there are.
        data_format: ``"channels_last"`` or ``"channels_first"``.
    """

    norm: str = "none"
    num_classes: int = 1000
    data_format: str = "channels_last"

    def __call__(self, image):
        """Return the logits, [B, classes], of images, [B, 224, 224, 3]."""
        if self.data_format == "channels_first":
            image = tf.transpose(image, [0, 3, 1, 2])
        he_normal = tf.initializers.variance_scaling(scale=2.0, mode="fan_out")
        formats = argscope([Conv2D, MaxPooling, BatchNorm, GroupNorm], data_format=self.data_format)
        x = image
        with formats, argscope(Conv2D, kernel_size=3, kernel_initializer=he_normal):
            for stage, (count, channels) in enumerate(STAGES, 1):
                for number in range(1, count + 1):
                    x = self._convolution(f"conv{stage}_{number}", x, channels)
                x = MaxPooling(f"pool{stage}", x, 2)  # half the height and width
        with argscope(FullyConnected, kernel_initializer=tf.random_normal_initializer(stddev=0.001)):
            x = Dropout(FullyConnected("fc6", x, 4096, activation=tf.nn.relu), rate=0.5)  # [B, 4096]
            x = Dropout(FullyConnected("fc7", x, 4096, activation=tf.nn.relu), rate=0.5)
        return FullyConnected("fc8", x, self.num_classes, kernel_initializer=tf.random_normal_initializer(stddev=0.01))

    def _convolution(self, name, features, channels):
        features = Conv2D(name, features, channels)
        normalize = NORMS[self.norm]
        if normalize is not None:
            features = normalize(f"{name}_{self.norm.lower()}", features)
        return tf.nn.relu(features, name=f"{name}_relu")


RECIPE = Recipe(
    lambda options: VGG(options.norm, options.classes, options.data_format),
    rate=0.01,
    weight_decay=5e-4,
    label_smoothing=0.0,
)


def main(argv=None):
    parser = make_parser(RECIPE, __doc__)
    parser.add_argument("--data-format", default="channels_last", choices=("channels_last", "channels_first"))
    parser.add_argument("--norm", choices=NORMS, default="none", help="after each convolution (default: none)")
    return run(RECIPE, parser, parser.parse_args(argv))


if __name__ == "__main__":
    main()
