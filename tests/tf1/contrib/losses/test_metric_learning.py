"""Losses of metric learning, against loops over all pairs and triplets in numpy."""

import numpy as np
import pytest

import tpack.tf1 as tf

learning = tf.contrib.losses.metric_learning
RANDOM = np.random.RandomState(1)
EMBEDDINGS = RANDOM.randn(8, 5).astype("f")
EMBEDDINGS /= np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
CLASSES = [0, 0, 1, 1, 2, 2, 0, 1]
ONE, OTHER = RANDOM.randn(6, 4).astype("f"), RANDOM.randn(6, 4).astype("f")


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


def run(tensor):
    with tf.Session() as session:
        return session.run(tensor)


def pairs(is_same):
    return [(i, j) for i in range(8) for j in range(8) if i != j and (CLASSES[i] == CLASSES[j]) == is_same]


def test_contrastive_loss():
    distances = np.linalg.norm(ONE - OTHER, axis=1)
    labels = np.array([1, 0, 1, 0, 1, 0])
    expected = np.mean(labels * distances**2 + (1 - labels) * np.maximum(3 - distances, 0) ** 2)
    assert run(learning.contrastive_loss(labels, ONE, OTHER, margin=3.0)) == pytest.approx(expected, rel=1e-5)
    same = tf.constant(ONE)
    gradient = tf.gradients(learning.contrastive_loss(labels, same, same), same)[0]
    assert np.isfinite(run(gradient)).all()


@pytest.mark.parametrize("margin", [1.0, 0.2])
def test_triplet_loss(margin):
    squares = ((EMBEDDINGS[:, None] - EMBEDDINGS) ** 2).sum(2)
    lost = []
    for i, j in pairs(is_same=True):
        others = [squares[i, k] for k in range(8) if CLASSES[k] != CLASSES[i]]
        farther = [other for other in others if other > squares[i, j]]
        lost.append(max(0, squares[i, j] - (min(farther) if farther else max(others)) + margin))
    loss = learning.triplet_semihard_loss(CLASSES, EMBEDDINGS, margin)
    assert run(loss) == pytest.approx(np.mean(lost), rel=1e-4)


def test_npairs_loss(capfd):
    labels = np.array([0, 1, 2, 1, 0, 2])
    scores = ONE @ OTHER.T
    log_likelihood = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    targets = (labels[:, None] == labels) / 2
    lengths = (ONE**2).sum(1).mean() + (OTHER**2).sum(1).mean()
    expected = 0.25 * 0.1 * lengths - (targets * log_likelihood).sum(1).mean()
    assert run(learning.npairs_loss(labels, ONE, OTHER, 0.1, print_losses=True)) == pytest.approx(expected, rel=1e-5)
    assert "cross entropy" in capfd.readouterr().err


def test_lifted_structure_loss():
    distances = np.linalg.norm(EMBEDDINGS[:, None] - EMBEDDINGS, axis=2)
    lost = []
    for i, j in pairs(is_same=True):
        around = [2.0 - distances[a, b] for a, b in pairs(is_same=False) if a in (i, j)]
        lost.append(max(0, np.log(np.exp(around).sum()) + distances[i, j]) ** 2)
    loss = learning.lifted_struct_loss(CLASSES, EMBEDDINGS, 2.0)
    assert run(loss) == pytest.approx(sum(lost) / 4 / (len(lost) / 2), rel=1e-4)
