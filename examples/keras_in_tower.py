"""Layers and models of Keras 3 in a tower function, beside tpack's own, trained on several towers.

    python examples/keras_in_tower.py
    python examples/keras_in_tower.py --trainer parameter-server --towers 4

It shows that Keras layers are called as they are, what tells them whether they train, and how the losses of their
regularizers become a part of the cost. A whole Keras model with its loss and optimizer, without a tower function, is
what `tpack.KerasModel` takes. On scikit-learn's digits, of which the last 360 are kept for the test, it
ends with 8 % wrong or less, in 10 seconds on two cores.
"""

import argparse

import keras
import tensorflow.compat.v1 as tf
from digits import TRAINERS
from keras import layers

from tpack import (
    BatchData,
    ClassificationError,
    Conv2D,
    InferenceRunner,
    JSONWriter,
    ModelDesc,
    ModelSaver,
    TFDatasetInput,
    TrainConfig,
    add_keras_losses,
    launch_train_with_config,
    logger,
    regularize_cost_from_collection,
)
from tpack.dataflow.dataset import Digits
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect

BATCH = 64


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "input"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        regularizer = keras.regularizers.L2(1e-4)
        stem = layers.Conv2D(16, 3, padding="same", activation="relu", kernel_regularizer=regularizer, name="stem")
        x = stem(tf.expand_dims(image, 3))  # [B, 8, 8, 16]
        # In a tower for validation it uses its moving averages, which training keeps up to date without more ado.
        x = layers.BatchNormalization(momentum=0.8, name="norm")(x, training=self.training)
        x = Conv2D("own", x, 16, 3, activation=tf.nn.relu)  # [B, 8, 8, 16]
        head = keras.Sequential(
            [
                layers.MaxPooling2D(2),  # [B, 4, 4, 16]
                layers.Flatten(),
                layers.Dense(48, activation="relu", name="hidden"),  # [B, 48]
                layers.Dense(10, name="logits"),  # [B, 10]
            ],
            name="head",
        )
        logits = head(x, training=self.training)
        add_keras_losses(stem, head)

        prediction_incorrect(logits, label)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)  # [B]
        loss = tf.reduce_mean(losses, name="cross_entropy_loss")
        decay = tf.identity(regularize_cost_from_collection(), name="wd")
        add_moving_summary(loss, decay)
        return tf.add(loss, decay, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=5e-3, trainable=False))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trainer", choices=TRAINERS, default="replicated")
    parser.add_argument("--towers", type=int, default=2, help="how many; the simple trainer has one (default: 2)")
    parser.add_argument("--epochs", type=int, default=8, help="how many (default: 8)")
    parser.add_argument("--steps", type=int, help="in each epoch (default: one pass over the data)")
    options = parser.parse_args(argv)
    towers = 1 if options.trainer == "simple" else options.towers

    logger.auto_set_dir("b")
    config = TrainConfig(
        model=Model(),
        # The same batches in a pipeline of tf.data, in the graph.
        data=TFDatasetInput(BatchData(Digits("train"), BATCH // towers)),
        callbacks=[
            ModelSaver(max_to_keep=1),
            InferenceRunner(BatchData(Digits("test"), 90, remainder=True), ClassificationError()),
        ],
        steps_per_epoch=options.steps,
        max_epoch=options.epochs,
    )
    launch_train_with_config(config, TRAINERS[options.trainer](towers))
    print(f"Test error: {JSONWriter.load_existing_json()[-1]['validation_error']:.2%}")


if __name__ == "__main__":
    main()
