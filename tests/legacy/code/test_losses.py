"""Older losses against their formulas in numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.legacy.code import losses


@pytest.fixture
def features(rng):
    return [rng.standard_normal((5, 3), "float32") for _ in range(3)]


def cosine(a, b):
    return (a * b).sum(1) / np.sqrt((a**2).sum(1) * (b**2).sum(1))


def test_losses_of_pairs(session8, features):
    a, b, _ = features
    y = np.int32([0, 1, 0, 1, 1])
    distance = np.sqrt(((a - b) ** 2).sum(1))
    each = np.where(y == 0, distance**2, np.maximum(0, 2.5 - distance) ** 2)
    loss, near, far = losses.contrastive_loss(*map(tf.constant, (a, b, y)), margin=2.5, extra=True)
    wanted = [each.mean() / 2, distance[y == 0].mean(), distance[y == 1].mean()]
    np.testing.assert_allclose(session8.run([loss, near, far]), wanted, rtol=1e-5)
    signs = np.float32([1, -1, 1, 1, -1])
    got = session8.run(losses.siamese_cosine_loss(*map(tf.constant, (a, b, signs))))
    np.testing.assert_allclose(got, ((signs - cosine(a, b)) ** 2).mean() / 2, rtol=1e-5)


def test_losses_of_triplets(session8, features):
    near, far = (np.sqrt(((features[0] - other) ** 2).sum(1)) for other in features[1:])
    tensors = [tf.constant(each) for each in features]
    got = session8.run(losses.triplet_loss(*tensors, margin=0.5, extra=True))
    wanted = [np.maximum(0, 0.5 + near**2 - far**2).mean(), near.mean(), far.mean()]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    share = np.exp(near) / (np.exp(near) + np.exp(far))
    got = session8.run(losses.soft_triplet_loss(*tensors, extra=False))
    np.testing.assert_allclose(got, (share**2).mean() * 2, rtol=1e-5)


def test_losses_of_numbers(session8):
    x = np.float32([-3, -0.5, 0, 0.25, 2])
    wanted = np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5)
    np.testing.assert_allclose(session8.run(losses.huber_loss(tf.constant(x))), wanted)
    shares, label = np.float32([0.9, 0.2, 0.4, 0.7]), np.float32([1, 0, 0, 0])
    wanted = -(0.75 * label * np.log(shares) + 0.25 * (1 - label) * np.log(1 - shares)).mean()
    got = session8.run(losses.class_balanced_cross_entropy(tf.constant(shares), tf.constant(label)))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_centres_follow_their_class(session8, features):
    label = np.int32([0, 1, 1, 2, 0])
    loss = losses.center_loss(tf.constant(features[0]), tf.constant(label), 3, alpha=0.25)
    session8.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session8.run(loss), (features[0] ** 2).mean(), rtol=1e-5)
    wanted = np.zeros((3, 3), "float32")
    np.add.at(wanted, label, 0.25 * features[0])
    np.testing.assert_allclose(session8.run(tf.global_variables()[0]), wanted, rtol=1e-5)


def test_a_placeholder_has_unknown_sizes(session8):
    tensor = losses.shapeless_placeholder(tf.constant([[1.0, 2.0]]), [0], "free")
    assert tensor.shape.as_list() == [None, 2]
    assert session8.run(tensor, {tensor: np.ones((4, 2))}).shape == (4, 2)
    with pytest.raises(ConfigError, match="got axis=0, unknown already in free:0"):
        losses.shapeless_placeholder(tensor, 0, "again")
