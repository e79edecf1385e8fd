"""The network that proposes regions: for each anchor, whether it is near an object, and where that one lies.

Source:
    Ren et al., "Faster R-CNN", https://arxiv.org/abs/1506.01497 (numbers of samples are those for large images)
    Lin et al., "Feature Pyramid Networks for Object Detection", https://arxiv.org/abs/1612.03144
"""

import boxes
import numpy as np
import tensorflow.compat.v1 as tf
from fpn import STRIDES

from tpack import Conv2D, argscope
from tpack.tfutils.scope_utils import auto_reuse_variable_scope

RATIOS = (0.5, 1.0, 2.0)
ANCHOR_SCALE = 4
"""The side of a square anchor, in strides of its map: from 16 to 128 pixels."""

SAMPLES, MOST_FOREGROUND = 128, 0.5
BACKGROUND, FOREGROUND = 0.3, 0.7
BEFORE_SUPPRESSION, AFTER_SUPPRESSION, SUPPRESSION = 200, 100, 0.7


def anchors_of(feature, stride):
    """Return the anchors of a map, [1, H, W, C]: around each place one for each ratio of height to width.

    Shapes:
        [H * W * 3, 4], by row, column and ratio.
    """
    height, width = tf.unstack(tf.cast(tf.shape(feature)[1:3], tf.float32))
    y, x = tf.meshgrid(tf.range(height) + 0.5, tf.range(width) + 0.5, indexing="ij")
    centres = tf.stack([x, y, x, y], axis=-1)[:, :, None] * stride  # [H, W, 1, 4]
    roots = np.sqrt(RATIOS)
    halves = np.stack([-1 / roots, -roots, 1 / roots, roots], axis=1) * stride * ANCHOR_SCALE / 2  # [3, 4]
    return tf.reshape(centres + halves.astype(np.float32), [-1, 4])


@auto_reuse_variable_scope
def rpn_head(feature):
    """Return scores, [H * W * 3], and deltas, [H * W * 3, 4], of a map, [1, H, W, C]; the same weights for all."""
    with argscope(Conv2D, kernel_initializer=tf.random_normal_initializer(stddev=0.01)):
        hidden = Conv2D("conv0", feature, int(feature.shape[-1]), 3, activation=tf.nn.relu)  # [1, H, W, C]
        scores = Conv2D("score", hidden, len(RATIOS), 1)  # [1, H, W, 3]
        deltas = Conv2D("box", hidden, 4 * len(RATIOS), 1)  # [1, H, W, 12]
    return tf.reshape(scores, [-1]), tf.reshape(deltas, [-1, 4])


def rpn(features):
    """Return anchors, scores and deltas of each map of a pyramid, as three lists."""
    anchors = [anchors_of(feature, stride) for feature, stride in zip(features, STRIDES, strict=True)]
    with tf.variable_scope("rpn"):
        found = [rpn_head(feature) for feature in features]
    return anchors, [scores for scores, _ in found], [deltas for _, deltas in found]


def propose(anchors, scores, deltas, size):
    """Return the best regions, [R, 4], of an image of some height and width, [2]; no gradient flows through them."""
    kept_boxes, kept_scores = [], []
    for level_anchors, level_scores, level_deltas in zip(anchors, scores, deltas, strict=True):
        count = tf.minimum(BEFORE_SUPPRESSION, tf.size(level_scores))
        best, chosen = tf.math.top_k(level_scores, count)
        regions = boxes.decode(tf.gather(level_deltas, chosen), tf.gather(level_anchors, chosen))
        kept_boxes.append(boxes.clip(regions, size))
        kept_scores.append(best)
    regions, best = tf.concat(kept_boxes, axis=0), tf.concat(kept_scores, axis=0)
    is_some = boxes.areas(regions) > 1
    regions, best = tf.boolean_mask(regions, is_some), tf.boolean_mask(best, is_some)
    chosen = boxes.suppress(regions, best, AFTER_SUPPRESSION, SUPPRESSION)
    return tf.stop_gradient(tf.gather(regions, chosen))


def rpn_losses(anchors, scores, deltas, truth, key):
    """Return what scores and deltas cost, a number each.

    Args:
        anchors: of all maps, [A, 4].
        scores: [A].
        deltas: [A, 4].
        truth: the true boxes, [N, 4].
        key: decides about which anchors count, [2].
    """
    nearest, status = boxes.match(anchors, truth, background=BACKGROUND, foreground=FOREGROUND, is_best_kept=True)
    near, far = boxes.sample(status, SAMPLES, most_foreground=MOST_FOREGROUND, key=key)
    chosen = tf.concat([near, far], axis=0)
    are_near = tf.concat([tf.ones_like(near), tf.zeros_like(far)], axis=0)
    score_losses = tf.nn.sigmoid_cross_entropy_with_logits(
        logits=tf.gather(scores, chosen), labels=tf.cast(are_near, tf.float32)
    )
    wanted = boxes.encode(tf.gather(truth, tf.gather(nearest, near)), tf.gather(anchors, near))
    box_loss = boxes.smooth_l1(tf.gather(deltas, near) - wanted, 1 / 9)
    return (
        tf.reduce_mean(score_losses, name="rpn_score_loss"),
        tf.divide(box_loss, tf.cast(tf.size(chosen), tf.float32), name="rpn_box_loss"),
    )
