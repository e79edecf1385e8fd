"""Find the pixels of a digit under noise, by a network with skip connections, as the field does for edges."""
# ruff: noqa: F403, F405

import argparse
import os

import cv2
import numpy as np

from tests.integration.scripts import segmentation_layers as layers
from tests.integration.scripts.digits_data import IMAGE_SIZE, Digits
from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils import gradproc
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tpack.tfutils.summary import add_moving_summary, add_tensor_summary
from tpack.tfutils.symbolic_functions import (
    batch_flatten,
    class_balanced_sigmoid_cross_entropy,
    flatten,
    psnr,
    saliency_map,
)
from tpack.utils.argtools import log_once
from tpack.utils.fs import mkdir_p
from tpack.utils.palette import PALETTE_RGB
from tpack.utils.stats import BinaryStatistics
from tpack.utils.viz import draw_boxes, dump_dataflow_images, gen_stack_patches, intensity_to_rgb, stack_patches

BATCH = 16


class NoisyDigits(ProxyDataFlow):
    """Yields a digit under noise, and where it is."""

    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for image, _ in self.ds:
            noise = self.rng.normal(scale=0.3, size=image.shape)
            yield [(image + noise).astype("float32"), (image > 0.5).astype("int32")]


class Model(ModelDesc):
    def inputs(self):
        size = IMAGE_SIZE, IMAGE_SIZE
        return [tf.TensorSpec([None, *size], tf.float32, "image"), tf.TensorSpec([None, *size], tf.int32, "edgemap")]

    def build_graph(self, image, edgemap):
        with argscope(layers.Branch, channels=12), argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            log_once(f"Branch has by default {get_arg_scope()['Branch']}")
            fine = layers.Branch("fine", tf.expand_dims(image, -1))
            x = MaxPooling("pool", fine, 2)
            x = InstanceNorm("in", x)
            coarse = layers.Branch("coarse", x, channels=16)
            x = FixedUnPooling("unpool", coarse, 2)
            x = ConcatWith(x, fine, 3)
            x = LayerNorm("ln", x)
            up = Conv2DTranspose("up", coarse, 8, 4, strides=2, activation=tf.nn.relu)
            x = Conv2D("merge", tf.concat([x, up], -1), 16)
            logits = Conv2D("logits", x, 1, 1, activation=tf.identity)

        logits = tf.squeeze(logits, 3)
        prediction = tf.nn.sigmoid(logits, name="output")
        cost = class_balanced_sigmoid_cross_entropy(logits, edgemap, name="cost")
        tf.cast(flatten(prediction) > 0.5, tf.int32, name="pixels")
        tf.reshape(edgemap, [-1], name="true_pixels")
        tf.concat([image, prediction, tf.cast(edgemap, tf.float32)], 2, name="shown")
        if self.training:
            add_tensor_summary(prediction, ["histogram", "sparsity"], name="prediction")
            add_moving_summary(cost, psnr(prediction, tf.cast(edgemap, tf.float32)))
        else:
            saliency_map(batch_flatten(prediction), image, name="saliency")
        return cost

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=1e-2, trainable=False)
        return AccumGradOptimizer(
            apply_grad_processors(
                tf.train.AdamOptimizer(lr), [gradproc.ScaleGradient(("logits/b", 2.0)), gradproc.SummaryGradient()]
            ),
            2,
        )


def get_data(train_or_test):
    return BatchData(NoisyDigits(Digits(train_or_test)), BATCH, remainder=train_or_test == "test")


def run(model_path, output):
    """Predict the test images; write pictures of the first ones, and return statistics of all pixels."""
    config = PredictConfig(
        model=Model(), session_init=SmartInit(model_path), input_names=["image"], output_names=["output", "saliency"]
    )
    predictor = OfflinePredictor(config)
    mkdir_p(output)
    dump_dataflow_images(get_data("test"), number=8, output_dir=os.path.join(output, "data"), scale=255, resize=64)

    stats, shown = BinaryStatistics(), []
    data = get_data("test")
    data.reset_state()
    for image, edgemap in data:
        prob, saliency = predictor(image)
        stats.feed((prob > 0.5).astype("int32"), edgemap)
        heat = [intensity_to_rgb(cv2.resize(abs(each), (64, 64)), normalize=True)[:, :, ::-1] for each in saliency]
        rows, columns = np.nonzero(prob[0] > 0.5)
        box = 8 * np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]]) - [0, 0, 1, 1]
        canvas = cv2.resize(np.clip(image[0] * 255, 0, 255).astype("uint8"), (64, 64))
        heat[0] = draw_boxes(canvas, box, color=PALETTE_RGB[0].tolist())
        shown += heat[:2]
    for number, grid in enumerate(gen_stack_patches([each.astype("uint8") for each in shown], 3, 4)):
        cv2.imwrite(os.path.join(output, f"grid-{number}.png"), grid)
    return stats


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--load")
    parser.add_argument("--run", help="write pictures of predictions to this directory")
    parser.add_argument("--num-gpu", type=int, default=2)
    args = parser.parse_args(argv)
    if args.run:
        return run(args.load, args.run)
    logger.auto_set_dir("d")
    train = get_data("train")
    for ds in (train, FakeData([[BATCH, IMAGE_SIZE, IMAGE_SIZE]] * 2, size=20, dtype=["float32", "int32"])):
        TestDataSpeed(ds, size=20).start()

    config = TrainConfig(
        model=Model(),
        dataflow=train,
        steps_per_epoch=len(train) // args.num_gpu,
        callbacks=[
            ModelSaver(),
            InferenceRunner(get_data("test"), BinaryClassificationStats("pixels", "true_pixels", prefix="pixel")),
            MaxSaver("pixel_recall"),
            DumpTensorAsImage("shown", map_func=lambda x: stack_patches(x[:4].clip(0, 1) * 255, 2, 2), scale=1),
        ],
        max_epoch=3,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerParameterServer(args.num_gpu))
    return None


if __name__ == "__main__":
    main()
