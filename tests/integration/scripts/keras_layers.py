"""Layers of Keras 3 and of tpack side by side in one tower function, trained as any other model."""
# ruff: noqa: F403, F405

import argparse

import keras

from tests.integration.scripts.digits_data import IMAGE_SIZE, get_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.models.regularize import add_keras_losses
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect


class Model(ModelDesc):
    def inputs(self):
        return [
            tf.TensorSpec([None, IMAGE_SIZE, IMAGE_SIZE], tf.float32, "input"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        layers = keras.layers
        regularizer = keras.regularizers.L2(1e-4)
        x = tf.expand_dims(image, 3)
        conv = layers.Conv2D(16, 3, padding="same", activation="relu", kernel_regularizer=regularizer, name="stem")
        x = conv(x)
        x = layers.BatchNormalization(momentum=0.8, name="norm")(x, training=self.training)
        x = Conv2D("own", x, 16, 3, activation=tf.nn.relu)
        head = keras.Sequential(
            [
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(48, activation="relu", name="hidden"),
                layers.Dense(10, name="logits"),
            ],
            name="head",
        )
        logits = head(x, training=self.training)
        add_keras_losses(conv, head)

        prediction_incorrect(logits, label)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        wd = tf.identity(regularize_cost_from_collection(), name="wd")
        add_moving_summary(cost, wd)
        return tf.add(cost, wd, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=5e-3, trainable=False))


TRAINERS = {
    "simple": lambda towers: SimpleTrainer(),
    "replicated": SyncMultiGPUTrainerReplicated,
    "ps": SyncMultiGPUTrainerParameterServer,
}


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", choices=TRAINERS, default="simple")
    parser.add_argument("--num-gpu", type=int, default=1)
    args = parser.parse_args(argv)
    logger.auto_set_dir("d", name="keras")

    train = get_data("train", 64 // args.num_gpu)
    config = TrainConfig(
        model=Model(),
        data=TFDatasetInput(train),
        callbacks=[ModelSaver(max_to_keep=1), InferenceRunner(get_data("test", 90), ClassificationError())],
        steps_per_epoch=22,
        max_epoch=4,
    )
    launch_train_with_config(config, TRAINERS[args.trainer](args.num_gpu))


if __name__ == "__main__":
    main()
