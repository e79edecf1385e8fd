"""Older layers against their formulas in numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.legacy.code import models as older
from tpack.models.linearwrap import LinearWrap
from tpack.tfutils.argscope import argscope


def test_activations_are_their_formulas(session8, rng):
    x = rng.standard_normal((3, 4), "float32")
    with argscope(older.LeakyReLU, alpha=0.2):
        leaky = LinearWrap(tf.constant(x)).LeakyReLU()()
    softmax = older.SoftMax("prob", tf.constant(x), use_temperature=True, temperature_init=2.0)
    session8.run(tf.global_variables_initializer())
    got_leaky, got_softmax = session8.run([leaky, softmax])
    np.testing.assert_allclose(got_leaky, np.where(x > 0, x, 0.2 * x), rtol=1e-6)
    shares = np.exp(x / 2)
    np.testing.assert_allclose(got_softmax, shares / shares.sum(1, keepdims=True), rtol=1e-5)


def test_bilinear_upsampling_goes_on_beyond_the_border(session8):
    x = np.float32([[0, 4], [8, 12]]).reshape(1, 2, 2, 1)
    enlarged = older.BilinearUpSample("up", tf.placeholder_with_default(x, [None, 2, 2, 1]), 2)
    assert enlarged.shape.as_list() == [None, 4, 4, 1]
    columns = np.float32([0, 1, 3, 4])
    np.testing.assert_allclose(session8.run(enlarged)[0, :, :, 0], columns[None] + 2 * columns[:, None])


@pytest.mark.parametrize(("mode", "outside"), [("repeat", 5.0), ("constant", 0.0)])
def test_images_are_sampled_between_pixels(session8, mode, outside):
    image = np.arange(6, dtype="float32").reshape(1, 2, 3, 1)
    places = np.float32([[[0, 0], [0.5, 0.5]], [[1, 1.25], [7, 7]]])[None]
    sampled = older.ImageSample("sample", [tf.constant(image), tf.constant(places)], borderMode=mode)
    np.testing.assert_allclose(session8.run(sampled)[0, :, :, 0], [[0, 2], [4.25, outside]])


@pytest.mark.usefixtures("graph")
def test_unknown_borders_are_refused():
    with pytest.raises(ConfigError, match="got borderMode='wrap': expected 'repeat' or 'constant'"):
        older.ImageSample([tf.zeros([1, 2, 2, 1]), tf.zeros([1, 1, 1, 2])], borderMode="wrap")


def test_sizes_are_numbers_where_they_are_known(session8):
    shape = older.StaticDynamicShape(tf.placeholder_with_default(np.zeros((4, 6)), [None, 6]))
    shape.apply(0, lambda size: size // 2)
    shape.apply(1, lambda size: size // 3)
    assert shape.get_static() == [None, 2]
    assert list(session8.run(shape.get_dynamic())) == [2, 2]
    assert session8.run(shape.get_dynamic(0)) == 2
    assert str(older.StaticDynamicAxis(3, 3)) == "S=3, D=3"


def test_arguments_get_the_names_of_tf_layers():
    @older.convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
    def layer(inputs, **kwargs):
        return inputs, kwargs

    assert layer(1, 2, nl=3) == (1, {"units": 2, "activation": 3})
    assert layer(1, out_dim=2, W_init=4) == (1, {"units": 2, "kernel_initializer": 4})
    with pytest.raises(ConfigError, match="got 2 positional arguments: expected at most 1"):
        layer(1, 2, 3)


@pytest.mark.usefixtures("graph")
def test_variables_are_renamed_by_their_last_part():
    with older.rename_get_variable({"kernel": "W"}), tf.variable_scope("kernel"):
        assert tf.get_variable("kernel", []).op.name == "kernel/W"
        assert tf.get_variable("bias", []).op.name == "kernel/bias"
