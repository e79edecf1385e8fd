"""Digits of house numbers, of which there are two parts to train on, mixed with handwritten ones."""
# ruff: noqa: F403, F405

import argparse
import os

import numpy as np

from tpack import *
from tpack.compat import tfv1 as tf
from tpack.dataflow import dataset, imgaug
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import prediction_incorrect

BATCH, SIDE = 50, 32


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, SIDE, SIDE, 1], tf.float32, "input"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        image = image / 128.0 - 1
        with argscope(Conv2D, activation=BNReLU, use_bias=False, kernel_size=5, strides=2):
            logits = (
                LinearWrap(image)
                .Conv2D("conv1", 16)
                .Conv2D("conv2", 24)
                .Conv2D("conv3", 32)
                .FullyConnected("fc", 64, activation=tf.nn.relu)
                .FullyConnected("linear", 10)()
            )
        prediction_incorrect(logits, label)
        tf.nn.softmax(logits, name="output")
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cost")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=5e-3, trainable=False))


def get_mnist(train_or_test, directory):
    """Handwritten digits as if they were photographs: of SVHN's size, in three channels from 0 to 255."""
    ds = dataset.Mnist(train_or_test, shuffle=train_or_test == "train", dir=os.path.join(directory, "mnist"))
    place = imgaug.RandomPaste if train_or_test == "train" else imgaug.CenterPaste
    to_colors = imgaug.AugmentorList(
        [imgaug.MapImage(lambda x: np.repeat(x[:, :, np.newaxis] * 255, 3, axis=2)), imgaug.ToUint8(), place(SIDE)]
    )
    return AugmentImageComponent(ds, to_colors)


def get_data(train_or_test, directory):
    """Batches of grey images."""
    svhn = os.path.join(directory, "svhn")
    if train_or_test == "train":
        parts = [dataset.SVHNDigit(name, data_dir=svhn) for name in ("train", "extra")]
        ds = RandomMixData([*parts, get_mnist("train", directory)])
        augmentors = [
            imgaug.Resize((36, 36)),
            imgaug.RandomCrop(SIDE),
            imgaug.Brightness(30),
            imgaug.Contrast((0.7, 1.3)),
            imgaug.SaltPepperNoise(0.01, 0.01),
        ]
    else:
        ds = ConcatData([dataset.SVHNDigit("test", data_dir=svhn, shuffle=False), get_mnist("test", directory)])
        augmentors = [imgaug.Resize((SIDE, SIDE))]
    ds = AugmentImageComponent(ds, [*augmentors, imgaug.Grayscale(rgb=True), imgaug.ToFloat32()])
    if train_or_test == "train":
        return MultiProcessRunner(BatchData(ds, BATCH), num_prefetch=5, num_proc=1)
    return BatchData(ds, BATCH, remainder=True)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="directory with `svhn` and `mnist`")
    parser.add_argument("--load", help="only return the probabilities of the test images, and what they show")
    args = parser.parse_args(argv)
    if args.load:
        config = PredictConfig(
            model=Model(), session_init=SmartInit(args.load), input_names=["input"], output_names=["output"]
        )
        ds = get_data("test", args.data)
        images = SelectComponent(ds, [0])
        prob = np.concatenate([prob for (prob,) in SimpleDatasetPredictor(config, images).get_result()])
        return prob, np.concatenate([label for _, label in ds])

    logger.auto_set_dir(name="house-numbers")
    train = get_data("train", args.data)
    config = TrainConfig(
        model=Model(),
        dataflow=train,
        callbacks=[ModelSaver(), InferenceRunner(get_data("test", args.data), ClassificationError())],
        max_epoch=4,
        steps_per_epoch=len(train),
    )
    launch_train_with_config(config, SimpleTrainer())
    return None


if __name__ == "__main__":
    main()
