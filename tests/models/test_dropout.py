"""Dropout: which number means what, when it drops, and that the mean stays."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, TowerError
from tpack.models.dropout import Dropout
from tpack.tfutils.argscope import argscope
from tpack.tower.context import TowerContext
from tpack.utils import logger

SIZE = 20000


def kept_share(y: Any) -> float:
    """Return the share of elements kept, and check that these were multiplied by its inverse."""
    with tf.Session() as session:
        values = session.run(y)
    kept = values[values != 0]
    np.testing.assert_allclose(kept, kept[0])
    np.testing.assert_allclose(kept[0] * kept.size / values.size, 1, rtol=0.05)
    return kept.size / values.size


@pytest.mark.parametrize(
    ("args", "kwargs", "keep"),
    [
        ((), {}, 0.5),
        ((0.8,), {}, 0.8),
        ((), {"keep_prob": 0.8}, 0.8),
        ((), {"rate": 0.8}, 0.2),
        ((), {"rate": 0}, 1.0),
        ((1.0,), {}, 1.0),
    ],
)
def test_probability_is_to_keep_except_as_rate(graph: Any, args: Any, kwargs: Any, keep: float) -> None:
    tf.set_random_seed(1)
    with TowerContext("", is_training=True):
        assert kept_share(Dropout("drop", tf.ones([SIZE]), *args, **kwargs)) == pytest.approx(keep, abs=0.02)


def test_probability_may_be_a_tensor_of_another_dtype(graph: Any) -> None:
    tf.set_random_seed(1)
    y = Dropout(tf.ones([SIZE], tf.float64), keep_prob=tf.constant(0.8), training=True)
    assert kept_share(y) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("kwargs", [{}, {"training": False}, {"is_training": False}])
def test_without_training_nothing_is_made(graph: Any, kwargs: Any) -> None:
    x = tf.ones([3])
    with TowerContext("", is_training=bool(kwargs)):
        assert Dropout("drop", x, keep_prob=0.1, **kwargs) is x


def test_training_may_be_decided_when_it_runs(graph: Any) -> None:
    training = tf.placeholder(tf.bool, [])
    y = Dropout(tf.ones([SIZE]), training=training)
    with tf.Session() as session:
        assert session.run(y, {training: False}).all()
        assert not session.run(y, {training: True}).all()


def test_noise_shape_and_seed_are_those_of_tensorflow(graph: Any) -> None:
    y = Dropout(tf.ones([100, 50]), training=True, noise_shape=[100, 1], seed=1)
    z = tf.nn.dropout(tf.ones([100, 50]), rate=0.5, noise_shape=[100, 1], seed=1)
    with tf.Session() as session:
        got, wanted = session.run([y, z])
    np.testing.assert_array_equal(got, wanted)
    assert {len(set(row)) for row in got.tolist()} == {1}


def test_gradient_is_the_mask(graph: Any) -> None:
    x = tf.ones([100])
    y = Dropout(x, rate=0.3, training=True)
    with tf.Session() as session:
        grad, value = session.run([tf.gradients(y, x)[0], y])
    np.testing.assert_allclose(grad, value)


def test_number_without_keyword_is_warned_of_once(graph: Any) -> None:
    logger._log_new.cache_clear()
    with captured_log() as lines:
        Dropout(tf.ones([3]), 0.5, training=True)
        assert lines == []
        for _ in range(2):
            Dropout(tf.ones([3]), 0.123, training=False)
    assert len([line for line in lines if "probability to keep" in line]) == 1


def test_argscope_gives_the_probability(graph: Any) -> None:
    with argscope(Dropout, rate=0.0), TowerContext("", is_training=True), tf.Session() as session:
        assert session.run(Dropout(tf.ones([100]))).all()


def test_outside_of_a_tower_training_must_be_given(graph: Any) -> None:
    with pytest.raises(TowerError, match="no tower is current"):
        Dropout(tf.ones([3]))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((0.5, 0.5), {}, "Dropout 'drop' got keep_prob=0.5, keep_prob=0.5: expected one probability"),
        ((0.5,), {"rate": 0.1}, "got keep_prob=0.5, rate=0.1: expected one probability"),
        ((), {"keep_prob": 0}, "got keep_prob=0: expected a number above 0 and at most 1"),
        ((), {"rate": 1.0}, "got rate=1.0: expected a number at least 0 and below 1"),
        ((), {"rate": -0.1}, "got rate=-0.1: expected a number at least 0 and below 1"),
        ((), {"training": True, "is_training": True}, "got 'training' under two names"),
        ((), {"probability": 0.5}, "got the arguments probability: expected keep_prob, rate"),
    ],
)
def test_bad_arguments_are_named(graph: Any, args: Any, kwargs: Any, message: str) -> None:
    with TowerContext("", is_training=True), pytest.raises(ConfigError, match=message):
        Dropout("drop", tf.ones([3]), *args, **kwargs)
