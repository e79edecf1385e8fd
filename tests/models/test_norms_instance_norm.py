"""Instance normalisation against numpy, in both formats."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, assert_layer
from tests.helpers.norm_oracles import affine, normalized
from tpack.errors import ConfigError
from tpack.models.norms import InstanceNorm


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("options", [{}, {"scale": False}, {"use_affine": False}])
def test_values_and_gradients(options, data_format, rng):
    def build(x, data_format):
        return InstanceNorm("norm", x, data_format=data_format, **options)

    def oracle(x, variables):
        return affine(normalized(x, (1, 2)), variables, "norm")

    assert_layer(build, rng.normal(size=(3, 4, 3, 2), loc=2.0, scale=3.0), oracle, data_format)


def test_variables_and_output_have_tensorpack_s_names(graph):
    y = InstanceNorm("in", tf.zeros([2, 3, 3, 4]))
    assert {v.op.name: v.shape.as_list() for v in tf.trainable_variables()} == {"in/gamma": [4], "in/beta": [4]}
    assert y.name == "in/output:0"
    assert len(y.variables.all()) == 2
    assert InstanceNorm("plain", tf.zeros([2, 3, 3, 4]), use_affine=False).variables.all() == []


def test_an_input_without_height_and_width_is_an_error(graph):
    with pytest.raises(ConfigError, match=r"InstanceNorm 'a' got an input of shape \(2, 4\) .*: expected 4 dimensions"):
        InstanceNorm("a", tf.zeros([2, 4]))
