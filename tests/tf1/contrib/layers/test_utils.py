"""Sizes, conditions and collected outputs."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names
from tpack.errors import ConfigError
from tpack.tf1.contrib.layers import utils


def test_outputs_are_collected_by_their_aliases(graph):
    one, other = tf.zeros([2], name="one"), tf.zeros([2], name="other")
    assert utils.collect_named_outputs("outs", "block/one/", one) is one
    utils.collect_named_outputs(["outs", "more"], "block/other", other)
    assert utils.collect_named_outputs(None, "nowhere", other) is other
    tf.add_to_collection("outs", tf.zeros([2], name="plain"))
    found = utils.convert_collection_to_dict("outs", clear_collection=True)
    assert list(found) == ["block/one", "block/other", "plain"]
    assert found["block/one"] is one
    assert (names("outs"), names("more")) == ([], ["other"])
    assert utils.gather_tensors_aliases([one, other]) == ["block/one", "block/other"]


def test_collections_of_variables_are_for_all_or_by_name():
    assert utils.get_variable_collections(["a"], "weights") == ["a"]
    assert utils.get_variable_collections("a", "weights") == ["a"]
    assert utils.get_variable_collections({"weights": ["a"]}, "weights") == ["a"]
    assert utils.get_variable_collections({"weights": ["a"]}, "biases") is None


def test_known_sizes():
    shape = tf.TensorShape([None, 3, 4])
    assert utils.channel_dimension(shape, "NCHW") == 3
    assert utils.channel_dimension(shape, "NHWC") == utils.last_dimension(shape) == 4
    with pytest.raises(ConfigError, match="to be known"):
        utils.last_dimension(tf.TensorShape([3, None]))
    with pytest.raises(ConfigError, match="at least 3 dimensions"):
        utils.last_dimension(tf.TensorShape([3, 4]), min_rank=3)


def test_numbers_for_each_dimension():
    assert utils.two_element_tuple(3) == (3, 3)
    assert utils.two_element_tuple(tf.TensorShape([3, 4])) == (3, 4)
    assert utils.n_positive_integers(3, 2) == (2, 2, 2)
    for wrong in ([3], "3"):
        with pytest.raises(ConfigError, match="an integer or two"):
            utils.two_element_tuple(wrong)
    for wrong in (0, [1, 2], 1.5):
        with pytest.raises(ConfigError, match="a positive integer or 3"):
            utils.n_positive_integers(3, wrong)


def test_known_values(graph):
    assert utils.constant_value(tf.constant(True)) and utils.constant_value(3) == 3
    assert utils.constant_value(tf.placeholder(tf.bool)) is None
    assert utils.static_cond(True, lambda: 1, lambda: 2) == utils.smart_cond(True, lambda: 1, lambda: 2) == 1
    assert utils.static_cond(False, lambda: 1, lambda: 2) == 2
    with pytest.raises(ConfigError, match="got None"):
        utils.constant_value(None)
    with pytest.raises(ConfigError, match="expected a tensor of float32"):
        utils.constant_value(tf.constant(1), tf.float32)
