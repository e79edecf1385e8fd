"""Boxes in the graph: how much they overlap, what is between two of them, and which of many are chosen.

A box is x0, y0, x1, y1; A and B are numbers of boxes.

Source:
    Ren et al., "Faster R-CNN: Towards Real-Time Object Detection with Region Proposal Networks",
    https://arxiv.org/abs/1506.01497
"""

import math

import tensorflow.compat.v1 as tf

# No box becomes larger than this, in one step, so that exp() stays finite.
MOST_GROWTH = math.log(1000 / 16)


def areas(boxes):
    """Return the areas, [A], of boxes, [A, 4]."""
    return tf.reduce_prod(boxes[:, 2:] - boxes[:, :2], axis=1)


def overlaps(boxes, others):
    """Return intersection over union, [A, B], of boxes, [A, 4], and others, [B, 4]."""
    lower = tf.maximum(boxes[:, None, :2], others[None, :, :2])  # [A, B, 2]
    upper = tf.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = tf.reduce_prod(tf.maximum(upper - lower, 0), axis=2)  # [A, B]
    return tf.div_no_nan(shared, areas(boxes)[:, None] + areas(others) - shared)


def encode(boxes, anchors):
    """Return how boxes lie to anchors: centres by the size of the anchor, and the logarithms of sizes; [A, 4] all."""
    sizes, anchor_sizes = boxes[:, 2:] - boxes[:, :2], anchors[:, 2:] - anchors[:, :2]
    shifts = (boxes[:, :2] + boxes[:, 2:] - anchors[:, :2] - anchors[:, 2:]) / 2
    return tf.concat([shifts / anchor_sizes, tf.log(sizes / anchor_sizes)], axis=1)


def decode(deltas, anchors):
    """Return the boxes that lie so to anchors: the inverse of `encode`; [A, 4] all."""
    anchor_sizes = anchors[:, 2:] - anchors[:, :2]
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2 + deltas[:, :2] * anchor_sizes
    sizes = anchor_sizes * tf.exp(tf.minimum(deltas[:, 2:], MOST_GROWTH))
    return tf.concat([centres - sizes / 2, centres + sizes / 2], axis=1)


def clip(boxes, size):
    """Return the parts of boxes, [A, 4], that are inside of an image of some height and width, [2]."""
    return tf.clip_by_value(boxes, 0.0, tf.cast(tf.tile(size[::-1], [2]), tf.float32))


def match(candidates, truth, *, background, foreground, is_best_kept=False):
    """Find for each candidate the true box that it overlaps most.

    Args:
        candidates: [A, 4].
        truth: [B, 4], with B > 0.
        background: a candidate that overlaps less than this is background.
        foreground: one that overlaps as much as this or more is foreground; between the two it is neither.
        is_best_kept: whether a candidate that no other surpasses at some true box is foreground in any case.

    Returns:
        nearest: the number of the true box, [A] int32; status: 1 for foreground, 0 for background, else -1, [A] int32.
    """
    found = overlaps(candidates, truth)  # [A, B]
    nearest, most = tf.argmax(found, axis=1, output_type=tf.int32), tf.reduce_max(found, axis=1)  # [A]
    is_foreground = most >= foreground
    if is_best_kept:
        is_best = (found >= tf.reduce_max(found, axis=0)) & (found > 0)  # [A, B]
        is_foreground |= tf.reduce_any(is_best, axis=1)
    status = tf.cast(is_foreground, tf.int32) - tf.cast(~is_foreground & (most >= background), tf.int32)
    return nearest, status


def sample(status, count, *, most_foreground, key):
    """Choose candidates at random.

    Args:
        status: as `match` returns it, [A].
        count: how many are chosen at most.
        most_foreground: how large a part of them may be foreground; the rest is background.
        key: decides about it, [2] int32.

    Returns:
        The numbers of those of the foreground, and of those of the background; int64, a vector each.
    """
    chosen = _some_of(status > 0, int(count * most_foreground), key)
    return chosen, _some_of(tf.equal(status, 0), count - tf.size(chosen), key)


def _some_of(wanted, count, key):
    numbers = tf.where(wanted)[:, 0]
    order = tf.argsort(tf.random.stateless_uniform(tf.shape(numbers), key))
    return tf.gather(numbers, order[:count])


def smooth_l1(difference, beta):
    """Return the sum of what is the square near zero, within beta, and the absolute value beyond."""
    size = tf.abs(difference)
    return tf.reduce_sum(tf.where(size < beta, tf.square(size) / (2 * beta), size - beta / 2))


def suppress(boxes, scores, count, threshold, groups=None):
    """Return the numbers of boxes, the best first, none of which overlaps a better one by more than a threshold.

    Args:
        boxes: [A, 4].
        scores: [A].
        count: how many are returned at most.
        threshold: of intersection over union.
        groups: [A] numbers; only those of one group suppress each other. Without it, all do.
    """
    if groups is not None:
        # Groups are moved apart, so that no box of one reaches one of another.
        boxes += (tf.reduce_max(boxes) + 1) * tf.cast(groups, tf.float32)[:, None]
    return tf.image.non_max_suppression(boxes, scores, count, threshold)
