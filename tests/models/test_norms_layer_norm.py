"""Layer normalisation against numpy, in both formats."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, assert_layer
from tests.helpers.norm_oracles import affine, normalized
from tpack.errors import ConfigError
from tpack.models.norms import LayerNorm


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("shape", "options"), [((3, 2, 5, 4), {}), ((3, 6), {}), ((3, 6), {"center": False})])
def test_values_and_gradients(shape, options, data_format, rng):
    def build(x, data_format):
        return LayerNorm("ln", x, data_format=data_format, **options)

    def oracle(x, variables):
        return affine(normalized(x, tuple(range(1, x.ndim))), variables, "ln")

    assert_layer(build, rng.normal(size=shape, loc=2.0, scale=3.0), oracle, data_format)


def test_variables_and_output_have_tensorpack_s_names(graph):
    y = LayerNorm("ln", tf.zeros([2, 3, 3, 4]))
    assert {v.op.name: v.shape.as_list() for v in tf.trainable_variables()} == {"ln/gamma": [4], "ln/beta": [4]}
    assert y.name == "ln/output:0"
    assert y.variables.gamma is tf.trainable_variables()[0]
    y = LayerNorm("plain", tf.zeros([2, 4]), center=False, scale=False)
    assert y.variables.all() == []
    assert y.name == "plain/output:0"


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_narrow_inputs_are_normalised_in_float32(session8, dtype, rng):
    x = tf.cast(rng.normal(size=(2, 50), loc=100.0), dtype)
    y = LayerNorm("ln", x)
    assert y.dtype == dtype
    assert {v.dtype.base_dtype for v in tf.global_variables()} == {tf.float32}
    session8.run(tf.global_variables_initializer())
    value, got = session8.run([tf.cast(x, tf.float64), tf.cast(y, tf.float64)])
    np.testing.assert_allclose(got, normalized(value, (1,)), atol=0.02)


def test_bad_inputs_are_errors(graph):
    with pytest.raises(ConfigError, match=r"LayerNorm .a. got an input of shape .*: expected 2 or 4 dim"):
        LayerNorm("a", tf.zeros([2, 3, 4]))
    with pytest.raises(ConfigError, match="LayerNorm 'b' got an input .*: expected a known number of channels"):
        LayerNorm("b", tf.placeholder(tf.float32, [2, None]))
