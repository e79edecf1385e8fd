"""Compute data, metrics, losses and images of ``tf.contrib`` in TensorFlow 1.15 and in `tpack.tf1`, and compare.

    python -m tests.trials.tensorflow_1_contrib PYTHON_OF_1_15

Each case is computed by both: its values (for metrics before and after each of two updates), its static shapes and the
names of the variables that it makes. Where one refuses a case, the other has to.

This file is run by both Pythons, so it has no syntax newer than 3.7.
"""

import importlib
import os
import pickle
import sys
import tempfile

import numpy as np

_RANDOM = np.random.RandomState(0)
_SCORES, _WEIGHTS = [0.1, 0.4, 0.6, 0.9, 0.3], [1.0, 2.0, 1.0, 0.5, 3.0]
_NUMBERS, _TRUTH, _GUESSES = [1.0, 2.0, 0.0, 4.0, 1.0], [False, True, True, False, False], [0, 1, 1, 1, 0]
_P, _L = _RANDOM.rand(4, 3).astype("f"), _RANDOM.rand(4, 3).astype("f")
_W, _ONE_HOT = np.array([[1.0], [0.0], [2.0], [0.5]], "f"), np.eye(3, dtype="f")[[0, 2, 1, 1]]
_A, _B = _RANDOM.randn(6, 4).astype("f"), _RANDOM.randn(6, 4).astype("f")
_E, _CLASSES = _RANDOM.randn(8, 5).astype("f"), np.array([0, 0, 1, 1, 2, 2, 0, 1])
_E /= np.sqrt((_E**2).sum(1, keepdims=True))
_IMAGES, _FLOW = _RANDOM.rand(2, 5, 6, 3).astype("f"), _RANDOM.randn(2, 5, 6, 2).astype("f") * 2
_TRANSFORMS = np.array([[1, 0.1, 0.5, 0.2, 0.9, -1, 0.01, 0.02], [0.9, 0, 1, 0, 1.1, 0.3, 0, 0]], "f")


def metric_cases(tf):
    """Yield (name, function that makes a metric)."""
    metrics, constant = tf.contrib.metrics, tf.constant
    scores, weights, numbers = constant(_SCORES), constant(_WEIGHTS), constant(_NUMBERS)
    truth, guesses = constant(_TRUTH), constant(_GUESSES)
    for name in ("accuracy", "precision", "recall", "mean_absolute_error", "mean_squared_error"):
        yield name, lambda n="streaming_" + name: getattr(metrics, n)(guesses, tf.to_int32(truth), weights)
    for name in ("true_positives", "false_positives", "true_negatives", "false_negatives", "false_positive_rate"):
        yield name, lambda n="streaming_" + name: getattr(metrics, n)(guesses, truth, weights)
        at = "streaming_" + name + "_at_thresholds"
        yield name + " at", lambda n=at: getattr(metrics, n)(scores, truth, [0.2, 0.5], weights)
    for name in ("covariance", "pearson_correlation"):
        yield name, lambda n="streaming_" + name: getattr(metrics, n)(scores, numbers)
        yield name + " weighted", lambda n="streaming_" + name: getattr(metrics, n)(scores, numbers, weights)
    yield "count", lambda: metrics.count(scores, weights)
    yield "auc", lambda: metrics.streaming_auc(scores, truth, weights, 50, curve="PR")
    yield "kappa", lambda: metrics.cohen_kappa(constant([0, 1, 2, 1]), constant([0, 1, 1, 1]), 3)
    yield "f1", lambda: metrics.f1_score(truth, scores, weights, 30)
    for target in (0.0, 0.3, 0.6, 0.95, 1.4):
        yield "precision at", lambda t=target: metrics.precision_at_recall(truth, scores, t, weights)
        yield "recall at", lambda t=target: metrics.recall_at_precision(truth, scores, t)
        strict = {"strict_mode": True}
        yield "recall at strict", lambda t=target, s=strict: metrics.recall_at_precision(truth, scores, t, weights, **s)


def loss_cases(tf):
    """Yield (name, function that makes a loss)."""
    losses, constant = tf.contrib.losses, tf.constant
    p, labels, weights, one_hot = constant(_P), constant(_L), constant(_W), constant(_ONE_HOT)
    for name in ("absolute_difference", "mean_squared_error", "log_loss"):
        yield name, lambda n=name: getattr(losses, n)(p, labels, weights)
        yield name + " refused", lambda n=name: getattr(losses, n)(p, labels[:, :2])
    yield "pairwise", lambda: losses.mean_pairwise_squared_error(p, labels, weights[:, 0])
    yield "cosine", lambda: losses.cosine_distance(p, labels, 1, weights)
    yield "cosine refused", lambda: losses.cosine_distance(p, labels)
    yield "hinge", lambda: losses.hinge_loss(p, one_hot)
    yield "sigmoid", lambda: losses.sigmoid_cross_entropy(p, one_hot, weights, 0.1)
    yield "softmax", lambda: losses.softmax_cross_entropy(p, one_hot, weights[:, 0], 0.1)
    yield "sparse", lambda: losses.sparse_softmax_cross_entropy(p, constant([[0], [2], [1], [1]]), weights)
    learning, classes = losses.metric_learning, constant(_CLASSES)
    yield (
        "contrastive",
        lambda: learning.contrastive_loss(constant([1, 0, 1, 0, 1, 0]), constant(_A), constant(_B), 3.0),
    )
    yield "triplet", lambda: learning.triplet_semihard_loss(classes, constant(_E), 0.2)
    yield "npairs", lambda: learning.npairs_loss(classes[:6], constant(_A), constant(_B), 0.1)
    yield "lifted", lambda: learning.lifted_struct_loss(classes, constant(_E), 2.0)


def image_cases(tf):
    """Yield (name, function that makes an image)."""
    image = tf.contrib.image
    small = (_IMAGES[0] * 255).astype("u1")
    for how in ("NEAREST", "BILINEAR"):
        yield "rotate", lambda h=how: image.rotate(_IMAGES, [0.5, -1.0], h)
        yield "rotate small", lambda h=how: image.rotate(small, 0.7, h)
        yield "rotate grey", lambda h=how: image.rotate(_IMAGES[0, :, :, 0], 2.0, h)
        yield "translate", lambda h=how: image.translate(_IMAGES, [[1.5, -2.0], [0.3, 0]], h)
        yield "transform", lambda h=how: image.transform(_IMAGES, _TRANSFORMS, h, output_shape=[4, 7])
    yield "refused", lambda: image.rotate(small.astype("i1"), 0.1)
    yield "compose", lambda: image.compose_transforms(_TRANSFORMS, _TRANSFORMS[::-1])
    yield "matrices", lambda: image.matrices_to_flat_transforms(2.0 * image.flat_transforms_to_matrices(_TRANSFORMS))
    yield "warp", lambda: image.dense_image_warp(_IMAGES, _FLOW)


def data_cases(tf):
    """Yield (name, function that makes the next element)."""
    data, numbers = tf.contrib.data, tf.data.Dataset.range(16)
    growing = numbers.map(lambda x: tf.fill([x + 1], x))
    changes = {
        "windows": (numbers, data.sliding_window_batch(3, window_shift=2, window_stride=2)),
        "whole batches": (numbers, data.batch_and_drop_remainder(4)),
        "padded": (growing, data.padded_batch_and_drop_remainder(4, [None])),
        "shapes": (growing, data.assert_element_shape(tf.TensorShape([1]))),
        "mapped": (numbers, data.map_and_batch(lambda x: x * 2, 4, drop_remainder=True)),
        "buckets": (growing, data.bucket_by_sequence_length(tf.size, [3], [2, 2])),
    }
    for name, (dataset, change) in changes.items():
        yield name, lambda d=dataset, c=change: tf.data.make_one_shot_iterator(d.apply(c)).get_next()


def compute(tf):
    """Return {case: (values, shapes, names of variables) or "refused"}."""
    results = {}
    for cases in (metric_cases, loss_cases, image_cases, data_cases):
        with tf.Graph().as_default():
            count = sum(1 for _ in cases(tf))
        for index in range(count):
            # A graph of its own for each, so that names do not depend on what was there before.
            with tf.Graph().as_default():
                name, make = list(cases(tf))[index]
                results[f"{cases.__name__} {index} {name}"] = _outcome(tf, make)
    return results


def _outcome(tf, make):
    try:
        made = make()
        value, update = made if isinstance(made, tuple) else (made, tf.no_op())
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            values = [session.run(value)]
            for _ in range(2):
                session.run(update)
                values.append(session.run(value))
    except (ValueError, TypeError, tf.errors.InvalidArgumentError):
        return "refused"
    return values, value.shape.as_list(), [variable.op.name for variable in tf.local_variables()]


def difference(ours, theirs):
    """Return in what two results of a case differ, or None."""
    if "refused" in (ours, theirs):
        return None if ours == theirs else f"tpack: {ours}, 1.15: {theirs}"
    if ours[1:] != theirs[1:]:
        return f"{ours[1:]} is not {theirs[1:]}"
    places = range(len(theirs[0]))
    same = [np.allclose(ours[0][k], theirs[0][k], rtol=2e-5, atol=1e-5, equal_nan=True) for k in places]
    return None if all(same) else f"{ours[0]} is not {theirs[0]}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (the other Python does not have it)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results")
        tensorflow_1.run([sys.argv[1], "-W", "ignore", __file__, "--into", path])
        with open(path, "rb") as file:
            theirs = pickle.load(file)
    ours = compute(importlib.import_module("tpack.tf1"))
    found = {name: difference(ours[name], theirs[name]) for name in theirs}
    for name, what in found.items():
        if what is not None:
            print(f"{name}: {what}")
    print(f"{len(found)} cases, {sum(what is not None for what in found.values())} differ")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--into"]:
        with open(sys.argv[2], "wb") as results_file:
            pickle.dump(compute(importlib.import_module("tensorflow")), results_file, protocol=2)
    else:
        main()
