"""Two images through one network: embeddings by contrastive loss, and a classifier on top of the frozen network."""
# ruff: noqa: F403, F405

import argparse

import numpy as np

from tests.integration.scripts.digits_data import IMAGE_SIZE, Digits, get_data
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils.scope_utils import auto_reuse_variable_scope
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect
from tpack.tfutils.varreplace import freeze_variables
from tpack.utils.stats import OnlineMoments

EMBEDDING, MARGIN = 8, 2.0


class DigitPairs(ProxyDataFlow):
    """Yields two images and whether they show the same digit, which half of them do."""

    def __init__(self, ds, size):
        super().__init__(ds)
        self._size = size

    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)
        points = list(self.ds)
        self.by_label = [[image for image, label in points if label == digit] for digit in range(10)]

    def __len__(self):
        return self._size

    def __iter__(self):
        for number in range(self._size):
            is_same = number % 2
            first, second = self.rng.choice(10, size=2, replace=False)
            second = first if is_same else second
            left, right = (self.by_label[k][self.rng.randint(len(self.by_label[k]))] for k in (first, second))
            yield [left, right, np.int32(is_same)]


def image_spec(name):
    return tf.TensorSpec([None, IMAGE_SIZE, IMAGE_SIZE], tf.float32, name)


@auto_reuse_variable_scope
def embed(x):
    with argscope(Conv2D, filters=16, kernel_size=3, activation=tf.nn.relu):
        x = tf.expand_dims(x, -1)
        x = Conv2D("conv0", x)
        x = MaxPooling("pool0", x, 2)
        x = Conv2D("conv1", x)
        return FullyConnected("embed", x, EMBEDDING)


class SiameseModel(ModelDesc):
    def inputs(self):
        return [image_spec("input"), image_spec("input_y"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, y, label):
        with tf.variable_scope("siamese"):
            left, right = embed(x), embed(y)
        tf.identity(left, name="emb")
        distance = tf.sqrt(tf.reduce_sum(tf.square(left - right), axis=1) + 1e-10, name="distance")
        tf.cast(distance < MARGIN / 2, tf.int32, name="is_same")
        same = tf.cast(label, tf.float32)
        contrastive = same * tf.square(distance) + (1 - same) * tf.square(tf.nn.relu(MARGIN - distance))
        cost = tf.reduce_mean(contrastive, name="contrastive_loss")
        wd = tf.identity(regularize_cost("siamese/.*/W", l2_regularizer(1e-4)), name="wd")
        add_moving_summary(cost, wd)
        return tf.add(cost, wd, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=4e-3, trainable=False))


class FineTuneModel(ModelDesc):
    def inputs(self):
        return [image_spec("input"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, label):
        with tf.variable_scope("siamese"), freeze_variables(stop_gradient=True, skip_collection=True):
            emb = embed(x)
        logits = FullyConnected("classifier", emb, 10)
        prediction_incorrect(logits, label)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(cost, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(3e-2)


def train_embedding(num_gpu, epochs):
    batch = 64 // num_gpu
    train = BatchData(DigitPairs(Digits("train"), 64 * 30), batch)
    test = BatchData(DigitPairs(Digits("test"), 400), 100)
    config = TrainConfig(
        model=SiameseModel(),
        dataflow=train,
        steps_per_epoch=len(train) // num_gpu,
        callbacks=[
            ModelSaver(max_to_keep=1),
            InferenceRunner(test, [ScalarStats("contrastive_loss"), BinaryClassificationStats("is_same", "label")]),
            PeriodicTrigger(HostMemoryTracker(), every_k_epochs=1, before_train=True),
        ],
        max_epoch=epochs,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(num_gpu) if num_gpu > 1 else SimpleTrainer())


def train_classifier(load):
    config = TrainConfig(
        model=FineTuneModel(),
        dataflow=get_data("train", 64),
        callbacks=[ModelSaver(), InferenceRunner(get_data("test", 90), ClassificationError())],
        max_epoch=4,
        session_init=SmartInit(load),
    )
    launch_train_with_config(config, SimpleTrainer())


def embeddings(load):
    """Return how far the digits of each kind lie from their centre, and how far the centres lie apart."""
    pred = OfflinePredictor(
        PredictConfig(model=SiameseModel(), session_init=SmartInit(load), input_names=["input"], output_names=["emb"])
    )
    digits = Digits("test")
    emb = pred(digits.images)[0]
    centres = np.array([emb[digits.labels == digit].mean(axis=0) for digit in range(10)])
    inside = OnlineMoments()
    for vector, label in zip(emb, digits.labels, strict=True):
        inside.feed(np.linalg.norm(vector - centres[label]))
    between = np.linalg.norm(centres[:, None] - centres, axis=2)[np.triu_indices(10, 1)]
    return inside.mean, between.mean()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["embed", "classify", "evaluate"])
    parser.add_argument("--num-gpu", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--load")
    args = parser.parse_args(argv)
    if args.command == "evaluate":
        return embeddings(args.load)
    logger.auto_set_dir(name=args.command)
    if args.command == "embed":
        return train_embedding(args.num_gpu, args.epochs)
    return train_classifier(args.load)


if __name__ == "__main__":
    main()
