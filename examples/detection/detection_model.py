"""Faster R-CNN with a pyramid of features, of an image of any size: what is trained, and what it finds."""

import fpn
import roi_heads
import rpn
import tensorflow.compat.v1 as tf

from tpack import ModelDesc, l2_regularizer, regularize_cost
from tpack.tfutils.summary import add_moving_summary

PIXEL_MEAN, PIXEL_STD = 120.0, 60.0
COARSEST = fpn.STRIDES[-1]


class Detector(ModelDesc):
    """Finds objects of some classes.

    It takes images as they are in their files, and finds boxes in pixels of them: it sees to their size itself.

    Args:
        num_classes: C.
        size: what the shorter side of an image is made; the longer one is at most 5 / 3 of it. None leaves images.
        width: the number of channels that the network begins with.
        blocks: how many each of its four scales has.
    """

    def __init__(self, num_classes, size=None, *, width=16, blocks=(1, 1, 1, 1)):
        self.num_classes = num_classes
        self.size = size
        self.width = width
        self.blocks = blocks

    def inputs(self):
        return [
            tf.TensorSpec([None, None, 3], tf.uint8, "image"),
            tf.TensorSpec([None, 4], tf.float32, "boxes"),
            tf.TensorSpec([None], tf.int32, "labels"),
            # The number of the image, and what is chosen at random in it.
            tf.TensorSpec([2], tf.int32, "key"),
        ]

    def build_graph(self, image, truth, labels, key):
        tf.identity(key[0], name="number")
        pixels, size, scale = self.prepare(image)  # [1, H, W, 3]
        features = fpn.bottom_up(pixels, self.width, self.blocks)
        features = fpn.pyramid(features, 4 * self.width)  # [1, H/4, W/4, F] to [1, H/32, W/32, F]
        anchors, scores, deltas = rpn.rpn(features)
        regions = rpn.propose(anchors, scores, deltas, size)  # [R, 4]
        if not self.training:
            self.find(features, regions, size, scale)
            return None
        truth *= scale
        anchors, scores, deltas = (tf.concat(parts, axis=0) for parts in (anchors, scores, deltas))
        losses = rpn.rpn_losses(anchors, scores, deltas, truth, key)
        regions, classes, targets = roi_heads.sample_regions(regions, truth, labels, key)
        logits, deltas = roi_heads.classify(features, regions, self.num_classes, 8 * self.width)
        losses += roi_heads.head_losses(logits, deltas, regions, classes, targets)
        decay = regularize_cost(".*/W", l2_regularizer(1e-5), name="weight_decay")
        add_moving_summary(*losses, decay)
        return tf.add_n([*losses, decay], name="cost")

    def prepare(self, image):
        """Return an image as the network wants it, its size, and by how much it is larger than it came.

        Shapes:
            [1, H, W, 3], whose height and width are padded at the lower right; [2], of what is no padding; [].
        """
        pixels, size, scale = tf.cast(image, tf.float32)[None], tf.shape(image)[:2], tf.constant(1.0)
        if self.size is not None:
            sides = tf.cast(size, tf.float32)
            scale = tf.minimum(self.size / tf.reduce_min(sides), 5 / 3 * self.size / tf.reduce_max(sides))
            size = tf.cast(tf.round(sides * scale), tf.int32)
            pixels = tf.raw_ops.ResizeBilinear(images=pixels, size=size, half_pixel_centers=True)
        missing = -size % COARSEST
        pixels = (pixels - PIXEL_MEAN) / PIXEL_STD
        return tf.pad(pixels, [[0, 0], [0, missing[0]], [0, missing[1]], [0, 0]]), size, scale

    def find(self, features, regions, size, scale):
        """Name what is found: `found_boxes`, [D, 4], in pixels of the image, `found_scores` and `found_labels`."""
        logits, deltas = roi_heads.classify(features, regions, self.num_classes, 8 * self.width)
        found, scores, classes = roi_heads.detect(logits, deltas, regions, size)
        tf.divide(found, scale, name="found_boxes")
        tf.identity(scores, name="found_scores")
        tf.identity(classes, name="found_labels")

    def optimizer(self):
        learning_rate = tf.get_variable("learning_rate", initializer=1e-3, trainable=False)
        return tf.train.AdamOptimizer(learning_rate)
