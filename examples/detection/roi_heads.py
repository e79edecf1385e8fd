"""What is in a region: its features out of the pyramid, its class, and where exactly the object lies.

Source:
    Ren et al., "Faster R-CNN", https://arxiv.org/abs/1506.01497
    Lin et al., "Feature Pyramid Networks for Object Detection", https://arxiv.org/abs/1612.03144
    He et al., "Mask R-CNN", https://arxiv.org/abs/1703.06870 (features between the places of the map)
"""

import boxes
import numpy as np
import tensorflow.compat.v1 as tf
from fpn import STRIDES

from tpack import FullyConnected

SIDE = 7
"""A region has so many features on each side."""

CANONICAL = 112
"""A region of this size is looked for in the third map; one of half of it in the map before."""

SAMPLES, MOST_FOREGROUND = 64, 0.25
FOREGROUND = 0.5
DELTA_SCALE = np.float32([0.1, 0.1, 0.2, 0.2])
LEAST_SCORE, MOST_FOUND, SUPPRESSION = 0.05, 100, 0.5


def levels_of(regions):
    """Return the number of the map that each region, [R, 4], is looked for in."""
    size = tf.sqrt(tf.maximum(boxes.areas(regions), 1e-6))
    level = 2 + tf.floor(tf.log(size / CANONICAL) / np.log(2) + 1e-6)
    return tf.cast(tf.clip_by_value(level, 0, len(STRIDES) - 1), tf.int32)


def crop(feature, regions, stride):
    """Return twice SIDE features of each region, [R, 14, 14, C], each between four of a map, [1, H, W, C]."""
    # Beyond its edge a map goes on as it is there.
    feature = tf.pad(feature, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    x0, y0, x1, y1 = tf.unstack(regions / stride + 1, axis=1)  # [R]
    # The first feature lies half a step inside of the region, and the first place of a map half a place from its edge.
    steps = tf.stack([y1 - y0, x1 - x0], axis=1) / (2 * SIDE)  # [R, 2]
    first = tf.stack([y0, x0], axis=1) + steps / 2 - 0.5
    last = tf.stack([y1, x1], axis=1) - steps / 2 - 0.5
    corners = tf.concat([first, last], axis=1) / tf.tile(tf.cast(tf.shape(feature)[1:3] - 1, tf.float32), [2])  # [R, 4]
    numbers = tf.zeros([tf.shape(regions)[0]], tf.int32)
    return tf.image.crop_and_resize(feature, corners, box_indices=numbers, crop_size=[2 * SIDE, 2 * SIDE])


def align(features, regions):
    """Return the features of regions, [R, 7, 7, C], each out of the map for its size."""
    levels = levels_of(regions)
    numbers, crops = [], []
    for level, (feature, stride) in enumerate(zip(features, STRIDES, strict=True)):
        here = tf.where(tf.equal(levels, level))[:, 0]
        numbers.append(here)
        crops.append(crop(feature, tf.gather(regions, here), stride))
    # Back into the order of the regions.
    order = tf.argsort(tf.concat(numbers, axis=0))
    return tf.nn.avg_pool2d(tf.gather(tf.concat(crops, axis=0), order), 2, 2, "VALID")


def classify(features, regions, num_classes, width):
    """Return logits, [R, C + 1], the first for no object, and deltas for each class, [R, C, 4]."""
    with tf.variable_scope("head"):
        x = align(features, regions)  # [R, 7, 7, channels]
        x = FullyConnected("fc1", x, width, activation=tf.nn.relu)  # [R, width]
        x = FullyConnected("fc2", x, width, activation=tf.nn.relu)
        logits = FullyConnected(
            "class", x, num_classes + 1, kernel_initializer=tf.random_normal_initializer(stddev=0.01)
        )
        deltas = FullyConnected(
            "box", x, 4 * num_classes, kernel_initializer=tf.random_normal_initializer(stddev=0.001)
        )
    return logits, tf.reshape(deltas, [-1, num_classes, 4])


def sample_regions(proposals, truth, labels, key):
    """Choose the regions to train on, of which the true boxes are some.

    Returns:
        regions: [S, 4]; classes: 0 for no object, [S]; targets: the true boxes of those that are first, [F, 4].
    """
    regions = tf.concat([proposals, truth], axis=0)
    nearest, status = boxes.match(regions, truth, background=FOREGROUND, foreground=FOREGROUND)
    near, far = boxes.sample(status, SAMPLES, most_foreground=MOST_FOREGROUND, key=key)
    objects = tf.gather(nearest, near)
    classes = tf.concat([tf.gather(labels, objects), tf.zeros_like(far, tf.int32)], axis=0)
    return tf.gather(regions, tf.concat([near, far], axis=0)), classes, tf.gather(truth, objects)


def head_losses(logits, deltas, regions, classes, targets):
    """Return what classes and boxes cost, a number each; the arguments are of the sampled regions."""
    class_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=classes)  # [S]
    count = tf.shape(targets)[0]
    # Of the deltas of all classes, those of the right one.
    right = tf.gather(deltas[:count], classes[:count] - 1, batch_dims=1)  # [F, 4]
    wanted = boxes.encode(targets, regions[:count]) / DELTA_SCALE
    box_loss = boxes.smooth_l1(right - wanted, 1.0)
    return (
        tf.reduce_mean(class_losses, name="class_loss"),
        tf.divide(box_loss, tf.cast(tf.size(classes), tf.float32), name="box_loss"),
    )


def detect(logits, deltas, regions, size):
    """Return boxes, [D, 4], scores, [D], and classes, [D], of what is found in regions, [R, 4], of an image."""
    scores = tf.nn.softmax(logits)[:, 1:]  # [R, C]
    places = tf.where(scores > LEAST_SCORE)  # [P, 2], of region and class
    found = boxes.decode(tf.gather_nd(deltas, places) * DELTA_SCALE, tf.gather(regions, places[:, 0]))
    found, scores = boxes.clip(found, size), tf.gather_nd(scores, places)
    is_some = boxes.areas(found) > 1
    found, scores, places = (tf.boolean_mask(part, is_some) for part in (found, scores, places))
    chosen = boxes.suppress(found, scores, MOST_FOUND, SUPPRESSION, groups=places[:, 1])
    classes = tf.cast(tf.gather(places[:, 1], chosen) + 1, tf.int32)
    return tf.gather(found, chosen), tf.gather(scores, chosen), classes
