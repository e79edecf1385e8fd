"""Remove a pattern from photographs; a thread makes the pairs to learn from and puts them into a queue."""
# ruff: noqa: F403, F405

import argparse
import glob
import os
import queue

import cv2
import numpy as np

from tpack import *
from tpack.compat import tfv1 as tf
from tpack.dataflow import imgaug
from tpack.tfutils.summary import add_moving_summary
from tpack.tfutils.symbolic_functions import psnr
from tpack.utils.concurrency import StoppableThread
from tpack.utils.viz import draw_text, stack_patches

BATCH, PATCH = 8, 32


def pattern_over(dp):
    """Return [dirty, clean] of a photograph and a pattern, which is grey where it changes nothing."""
    clean, pattern = (image.astype("float32") for image in dp)
    return [np.clip(clean + pattern - 128, 0, 255), clean]


def get_pairs(directory):
    """Random patches without end, a photograph and a pattern each."""

    def patches(kind):
        ds = ImageFromFile(sorted(glob.glob(os.path.join(directory, kind, "*"))), channel=3, shuffle=True)
        augmentors = [
            imgaug.RandomResize((0.8, 1.2)) if kind == "photographs" else imgaug.Flip(vert=True),
            imgaug.RandomCrop(PATCH),
            imgaug.Flip(horiz=True),
        ]
        return RepeatedData(AugmentImageComponent(ds, augmentors), -1)

    return MapData(JoinData([patches("photographs"), patches("patterns")]), pattern_over)


class PairMaker(StoppableThread):
    """Makes pairs until it is stopped."""

    def __init__(self, ds, pairs):
        super().__init__()
        self.ds, self.queue = ds, pairs
        self.daemon = True

    def run(self):
        for dp in self.ds:
            if not self.queue_put_stoppable(self.queue, dp):
                return


class Model(ModelDesc):
    def inputs(self):
        shape = [None, None, None, 3]
        return [tf.TensorSpec(shape, tf.float32, "dirty"), tf.TensorSpec(shape, tf.float32, "clean")]

    def build_graph(self, dirty, clean):
        with argscope(Conv2D, kernel_size=5, activation=tf.nn.relu):
            x = Conv2D("conv1", dirty / 255.0, 12)
            x = Conv2D("conv2", x, 12)
            pattern = Conv2D("pattern", x, 3, activation=tf.identity)
        restored = tf.subtract(dirty, pattern * 255.0, name="restored")
        cost = tf.reduce_mean(tf.square((restored - clean) / 255.0), name="cost")
        add_moving_summary(cost, psnr(restored, clean, maxp=255))
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=5e-3, trainable=False))


def run(model_path, dirty_file, output):
    """Restore one image file, and write it beside what it was."""
    pred = OfflinePredictor(
        PredictConfig(
            model=Model(), session_init=SmartInit(model_path), input_names=["dirty"], output_names=["restored"]
        )
    )
    (image,) = next(iter(ImageFromFile([dirty_file])))
    restored = np.clip(pred(image[np.newaxis].astype("float32"))[0][0], 0, 255).astype("uint8")
    shown = draw_text(restored, (2, 2), "restored", color=(0, 0, 0), font_scale=0.3)
    cv2.imwrite(output, stack_patches([image, shown], 1, 2))
    return restored


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="directory with `photographs` and `patterns`")
    parser.add_argument("--load")
    parser.add_argument("--run", nargs=2, metavar=("IMAGE", "OUTPUT"), help="restore an image")
    args = parser.parse_args(argv)
    if args.run:
        return run(args.load, *args.run)
    logger.auto_set_dir(name="restoration")
    pairs = queue.Queue(maxsize=4 * BATCH)
    ds = get_pairs(args.data)
    ds.reset_state()
    config = TrainConfig(
        model=Model(),
        dataflow=BatchData(DataFromQueue(pairs), BATCH),
        callbacks=[ModelSaver(), StartProcOrThread(PairMaker(ds, pairs))],
        steps_per_epoch=40,
        max_epoch=3,
    )
    launch_train_with_config(config, SimpleTrainer())
    return None


if __name__ == "__main__":
    main()
