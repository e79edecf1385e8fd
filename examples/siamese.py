"""Two images through one network: an embedding in which digits of one kind lie close, and a classifier on top of it.

    python examples/siamese.py embed --towers 2
    python examples/siamese.py classify --load train_log/siamese:embed/checkpoint
    python examples/siamese.py evaluate --load train_log/siamese:embed/checkpoint

It shows weights that two calls of a function share, a contrastive cost, precision and recall over a whole set, and
weights that are loaded and then frozen. On scikit-learn's digits, of which the last 360 are kept for the test, the
centres of the ten digits lie more than 3 times as far apart as digits lie from theirs, after 6 epochs, 15 seconds on
two cores; the classifier on top, a single layer, gets less than 10 % wrong.

Source:
    Hadsell et al., "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import (
    BatchData,
    BinaryClassificationStats,
    ClassificationError,
    Conv2D,
    FullyConnected,
    HostMemoryTracker,
    InferenceRunner,
    JSONWriter,
    MaxPooling,
    ModelDesc,
    ModelSaver,
    OfflinePredictor,
    PredictConfig,
    ProxyDataFlow,
    ScalarStats,
    SimpleTrainer,
    SmartInit,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    argscope,
    get_rng,
    l2_regularizer,
    launch_train_with_config,
    logger,
    regularize_cost,
)
from tpack.dataflow.dataset import Digits
from tpack.tfutils.scope_utils import auto_reuse_variable_scope
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect
from tpack.tfutils.varreplace import freeze_variables
from tpack.utils.stats import OnlineMoments

BATCH, STEPS, EMBEDDING, MARGIN = 64, 30, 8, 2.0


class DigitPairs(ProxyDataFlow):
    """Yields two images, [8, 8] each, and whether they show the same digit, which half of them do.

    Args:
        digits: a flow of [image, label].
        size: how many pairs a pass has.
    """

    def __init__(self, digits, size):
        super().__init__(digits)
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


@auto_reuse_variable_scope
def embed(images):
    """Return the embedding, [B, 8], of images, [B, 8, 8]; the same weights at each call."""
    with argscope(Conv2D, filters=16, kernel_size=3, activation=tf.nn.relu):
        x = Conv2D("conv0", tf.expand_dims(images, -1))  # [B, 8, 8, 16]
        x = MaxPooling("pool0", x, 2)  # [B, 4, 4, 16]
        x = Conv2D("conv1", x)
        return FullyConnected("embed", x, EMBEDDING)


class SiameseModel(ModelDesc):
    def inputs(self):
        images = [tf.TensorSpec([None, 8, 8], tf.float32, name) for name in ("input", "input_y")]
        return [*images, tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, y, label):
        with tf.variable_scope("siamese"):
            left, right = embed(x), embed(y)  # [B, 8] both
        tf.identity(left, name="emb")
        distance = tf.sqrt(tf.reduce_sum(tf.square(left - right), axis=1) + 1e-10, name="distance")  # [B]
        tf.cast(distance < MARGIN / 2, tf.int32, name="is_same")
        # Those of one kind are pulled together, others pushed apart until they are far enough.
        same = tf.cast(label, tf.float32)
        contrastive = same * tf.square(distance) + (1 - same) * tf.square(tf.nn.relu(MARGIN - distance))  # [B]
        cost = tf.reduce_mean(contrastive, name="contrastive_loss")
        decay = tf.identity(regularize_cost("siamese/.*/W", l2_regularizer(1e-4)), name="wd")
        add_moving_summary(cost, decay)
        return tf.add(cost, decay, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=4e-3, trainable=False))


class FineTuneModel(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "input"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, label):
        with tf.variable_scope("siamese"), freeze_variables(stop_gradient=True, skip_collection=True):
            embedding = embed(x)
        logits = FullyConnected("classifier", embedding, 10)  # [B, 10]
        prediction_incorrect(logits, label)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(3e-2)


def train_embedding(options):
    test = BatchData(DigitPairs(Digits("test"), 400), 100)
    config = TrainConfig(
        model=SiameseModel(),
        dataflow=BatchData(DigitPairs(Digits("train"), BATCH * STEPS), BATCH // options.towers),
        callbacks=[
            ModelSaver(max_to_keep=1),
            InferenceRunner(test, [ScalarStats("contrastive_loss"), BinaryClassificationStats("is_same", "label")]),
            HostMemoryTracker(),
        ],
        steps_per_epoch=options.steps,
        max_epoch=options.epochs,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(options.towers))
    last = JSONWriter.load_existing_json()[-1]
    print(f"Precision: {last['val_precision']:.3f}, recall: {last['val_recall']:.3f}")


def train_classifier(options):
    config = TrainConfig(
        model=FineTuneModel(),
        dataflow=BatchData(Digits("train"), BATCH),
        callbacks=[ModelSaver(), InferenceRunner(BatchData(Digits("test"), 90), ClassificationError())],
        steps_per_epoch=options.steps,
        max_epoch=options.epochs,
        session_init=SmartInit(options.load),
    )
    launch_train_with_config(config, SimpleTrainer())
    print(f"Test error: {JSONWriter.load_existing_json()[-1]['validation_error']:.2%}")


def evaluate(options):
    """Return how far digits lie from the centre of their kind, and how far the centres lie apart."""
    load = SmartInit(options.load)
    predict = OfflinePredictor(
        PredictConfig(model=SiameseModel(), session_init=load, input_names=["input"], output_names=["emb"])
    )
    images, labels = (np.stack(part) for part in zip(*Digits("test", shuffle=False), strict=True))
    embedding = predict(images)[0]  # [360, 8]
    centres = np.array([embedding[labels == digit].mean(axis=0) for digit in range(10)])  # [10, 8]
    inside = OnlineMoments()
    for vector, label in zip(embedding, labels, strict=True):
        inside.feed(np.linalg.norm(vector - centres[label]))
    between = np.linalg.norm(centres[:, None] - centres, axis=2)[np.triu_indices(10, 1)]  # [45]
    print(f"Distance of centres: {between.mean():.3f}; of digits from theirs: {inside.mean:.3f}")
    return inside.mean, between.mean()


def main(argv=None):
    commands = {"embed": train_embedding, "classify": train_classifier, "evaluate": evaluate}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=commands)
    parser.add_argument("--towers", type=int, default=1, help="to embed with (default: 1)")
    parser.add_argument("--epochs", type=int, default=6, help="how many (default: 6)")
    parser.add_argument("--steps", type=int, help="in each epoch (default: one pass over the data)")
    parser.add_argument("--load", metavar="CHECKPOINT", help="with the embedding")
    options = parser.parse_args(argv)
    if options.command != "embed" and not options.load:
        parser.error(f"{options.command} needs an embedding: give its checkpoint with --load")
    if options.command != "evaluate":
        logger.auto_set_dir("b", name=options.command)
    return commands[options.command](options)


if __name__ == "__main__":
    main()
