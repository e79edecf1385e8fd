"""Batch renormalisation against numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, to_format
from tests.helpers.norm_oracles import normalized
from tpack.errors import ConfigError
from tpack.models.batch_norm import BatchNorm, BatchRenorm
from tpack.tower.context import PredictTowerContext, TrainTowerContext


def load(session, values):
    session.run(tf.global_variables_initializer())
    for variable in tf.global_variables():
        variable.load(values[variable.op.name.partition("/")[2]], session)


VALUES = {"gamma": [2.0, 0.5, 1.0], "beta": [1.0, 0.0, -1.0], "mean/EMA": [1.0, 0.0, 9.0], "variance/EMA": [4.0, 1, 9]}


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3, 3)])
def test_the_batch_is_corrected_towards_the_averages(session8, rng, data_format, shape):
    x = rng.normal(size=shape, loc=1.0, scale=2.5)
    with TrainTowerContext(""):
        y = BatchRenorm("bn", tf.constant(to_format(x, data_format)), 1.5, 0.7, data_format=data_format)
    load(session8, VALUES)
    axes = tuple(range(x.ndim - 1))
    deviation = np.sqrt(np.array(VALUES["variance/EMA"]) + 1e-5)
    factor = np.clip(np.sqrt(x.var(axes) + 1e-5) / deviation, 1 / 1.5, 1.5)
    shift = np.clip((x.mean(axes) - VALUES["mean/EMA"]) / deviation, -0.7, 0.7)
    expected = (normalized(x, axes) * factor + shift) * VALUES["gamma"] + VALUES["beta"]
    assert (factor != 1.5).any()
    np.testing.assert_allclose(session8.run(y), to_format(expected, data_format), rtol=1e-6, atol=1e-9)
    session8.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    mean = 0.9 * np.array(VALUES["mean/EMA"]) + 0.1 * x.mean(axes)
    np.testing.assert_allclose(session8.run(y.variables.mean), mean)


def test_within_the_limits_it_is_what_prediction_gives(session8, rng):
    x = tf.constant(rng.normal(size=(6, 3)))
    with TrainTowerContext(""):
        trained = BatchRenorm("bn", x, tf.constant(100.0), 100)
    with PredictTowerContext("predict", reuse=True):
        predicted = BatchRenorm("bn", x, 100, 100)
    load(session8, VALUES)
    got, expected = session8.run([trained, predicted])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert (trained.name, predicted.name) == ("bn/output:0", "predict/bn/output:0")


def test_without_correction_it_is_batch_normalisation(session8, rng):
    x = tf.placeholder(tf.float64, [None, 3])
    feed = {x: rng.normal(size=(5, 3))}
    with TrainTowerContext(""):
        outputs = BatchRenorm("a", x, 1, 0), BatchNorm("b", x)
    load(session8, VALUES)
    got, expected = session8.run(outputs, feed)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    got, expected = session8.run([tf.gradients(y**3, x)[0] for y in outputs], feed)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_the_correction_is_a_constant_for_gradients(session8, rng):
    x = tf.placeholder(tf.float64, [None, 3])
    value = rng.normal(size=(5, 3))
    with TrainTowerContext(""):
        y = BatchRenorm("bn", x, 3, 5, center=False, scale=False, gamma_initializer=tf.zeros_initializer())
        plain = BatchNorm("plain", x, center=False, scale=False)
    load(session8, VALUES)
    factor = np.clip(np.sqrt(value.var(0) + 1e-5) / np.sqrt(np.array(VALUES["variance/EMA"]) + 1e-5), 1 / 3, 3)
    got, expected = session8.run([tf.gradients(y**3, x)[0], tf.gradients(plain * 3 * y**2 * factor, x)[0]], {x: value})
    # Of the second, only the part through what it stands for is wanted.
    wanted = session8.run(tf.gradients(plain * tf.stop_gradient(3 * y**2 * factor), x)[0], {x: value})
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)
    assert not np.allclose(got, expected)


def test_limits_that_cannot_work_are_errors(graph):
    with TrainTowerContext(""):
        with pytest.raises(ConfigError, match="BatchRenorm 'a' got rmax=0.5: expected at least 1"):
            BatchRenorm("a", tf.zeros([2, 3]), 0.5, 1)
        with pytest.raises(ConfigError, match="BatchRenorm 'b' got dmax=-1: expected at least 0"):
            BatchRenorm("b", tf.zeros([2, 3]), 1, -1)
