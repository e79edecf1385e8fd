"""Learn where people draw edges, from images of any size, as the field's edge detectors do."""
# ruff: noqa: F403, F405

import argparse

from tests.integration.scripts.edges_data import get_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import class_balanced_sigmoid_cross_entropy

BATCH = 2


class Model(ModelDesc):
    def inputs(self):
        return [
            tf.TensorSpec([None, None, None, 3], tf.float32, "image"),
            tf.TensorSpec([None, None, None], tf.int32, "edgemap"),
        ]

    def build_graph(self, image, edgemap):
        image = image / 128.0 - 1
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            x = Conv2D("conv1", image, 16)
            x = Conv2D("conv2", x, 16)
            logits = tf.squeeze(Conv2D("logits", x, 1, 1, activation=tf.identity), 3)
        prob = tf.nn.sigmoid(logits, name="output")
        tf.reshape(tf.cast(prob > 0.5, tf.int32), [-1], name="pixels")
        tf.reshape(edgemap, [-1], name="true_pixels")
        cost = class_balanced_sigmoid_cross_entropy(logits, edgemap, name="xentropy")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=1e-2, trainable=False))


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="directory of the unpacked archive")
    args = parser.parse_args(argv)
    logger.auto_set_dir(name="edges")
    config = TrainConfig(
        model=Model(),
        dataflow=get_data("train", args.data, BATCH),
        callbacks=[
            ModelSaver(),
            InferenceRunner(
                get_data("test", args.data, BATCH), BinaryClassificationStats("pixels", "true_pixels", prefix="edge")
            ),
        ],
        steps_per_epoch=30,
        max_epoch=3,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()
