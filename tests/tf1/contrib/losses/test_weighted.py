"""Losses that take predictions before labels; expected values are those of TensorFlow 1.15 with the same numbers."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import ConfigError

losses = tf.contrib.losses
RANDOM = np.random.RandomState(0)
P, L = RANDOM.rand(4, 3).astype("f"), RANDOM.rand(4, 3).astype("f")
W = np.array([[1.0], [0.0], [2.0], [0.5]], "f")
ONE_HOT, CLASSES = np.eye(3, dtype="f")[[0, 2, 1, 1]], np.array([0, 2, 1, 1])


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


CASES = [
    ("absolute_difference", (P, L), 0.2653),
    ("absolute_difference", (P, L, W), 0.2239),
    ("mean_squared_error", (P, L), 0.0997),
    ("mean_squared_error", (P, L, W), 0.0815),
    ("log_loss", (P, L), 0.6328),
    ("log_loss", (P, L, W), 0.6394),
    ("log_loss", (P, L, 1.0, 0.1), 0.4477),
    ("mean_pairwise_squared_error", (P, L), 0.6262),
    ("mean_pairwise_squared_error", (P, L, W[:, 0]), 0.4065),
    ("cosine_distance", (P, L, 1), -0.1886),
    ("cosine_distance", (P, L, None, W, None, 1), -0.7259),
    ("sigmoid_cross_entropy", (P, ONE_HOT), 0.8162),
    ("sigmoid_cross_entropy", (P, ONE_HOT, W[:, 0], 0.1), 0.9759),
    ("softmax_cross_entropy", (P, ONE_HOT), 1.0139),
    ("softmax_cross_entropy", (P, ONE_HOT, W[:, 0], 0.1), 1.214),
    ("sparse_softmax_cross_entropy", (P, CLASSES), 1.0139),
    ("sparse_softmax_cross_entropy", (P, CLASSES[:, None], W), 1.2042),
    ("compute_weighted_loss", (P, W), 0.8116),
    ("compute_weighted_loss", (P, 0.0), 0.0),
]


def test_losses_have_their_values_and_are_collected():
    made = [getattr(losses, name)(*arguments) for name, arguments, _ in CASES]
    assert losses.get_losses() == tf.losses.get_losses() == made
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(made), [expected for _, _, expected in CASES], atol=6e-5)
        total = losses.get_total_loss(add_regularization_losses=False)
        assert session.run(total) == pytest.approx(sum(session.run(made)), rel=1e-5)


def test_names_are_those_of_the_original():
    names = [getattr(losses, name)(*arguments).op.name for name, arguments, _ in CASES[:11:2]]
    assert names == [
        "absolute_difference/value",
        "mean_squared_error/value",
        "log_loss/value",
        "log_loss_1/value",
        "mean_pairwise_squared_error/value",
        "cosine_distance_loss/value",
    ]


def test_hinge_loss_is_not_averaged():
    loss = losses.hinge_loss(P, ONE_HOT)
    with tf.Session() as session:
        expected = np.maximum(0, 1 - (2 * ONE_HOT - 1) * P)
        np.testing.assert_allclose(session.run(loss), expected, rtol=1e-6)
    assert losses.get_losses() == []


def test_a_loss_is_collected_where_it_is_to_be():
    loss = tf.constant(3.0)
    assert losses.add_loss(loss) is loss
    assert losses.add_loss(tf.constant(1.0), None) is not None
    assert losses.get_losses() == [loss]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ConfigError, match="mean_squared_error got no labels: expected both"):
        losses.mean_squared_error(P)
    with pytest.raises(ConfigError, match=r"predictions of shape \(4, 3\) and labels of shape \(4, 2\)"):
        losses.absolute_difference(P, L[:, :2])
    with pytest.raises(ConfigError, match="got axis=None and dim=None: expected one of them"):
        losses.cosine_distance(P, L)
    assert all(getattr(losses, name) is not None for name in losses.__all__)
