"""Placeholders: named as the signature says, shared by towers and sources."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.errors import ConfigError
from tpack.input_source import PlaceholderInput
from tpack.input_source.tensors import build_or_reuse_placeholder


def test_all_towers_have_the_same_placeholders(graph):
    with running(PlaceholderInput(), num_towers=2) as run:
        image, label = run.inputs[0]
        values = run.step({image: np.ones([4, 2]), label: 3})
    assert (image.name, label.name) == ("image:0", "label:0")
    assert all(one is other for one, other in zip(*run.inputs, strict=True))
    assert [int(label) for _, label in values] == [3, 3]


def test_a_placeholder_is_made_at_the_top_and_reused(graph):
    with tf.name_scope("inside"):
        first = build_or_reuse_placeholder(SIGNATURE[0])
    assert first.name == "image:0"
    assert build_or_reuse_placeholder(SIGNATURE[0]) is first


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.zeros([3, 2], name="image"),
        lambda: tf.placeholder(tf.int32, [None, 2], name="image"),
        lambda: tf.placeholder(tf.float32, [None, 3], name="image"),
        lambda: tf.placeholder(tf.float32, name="image"),
    ],
)
def test_something_else_of_that_name_is_an_error(graph, make):
    make()
    with pytest.raises(
        ConfigError, match=r"the graph has a .* 'image' .*, wanted a placeholder of float32 \(None, 2\)"
    ):
        build_or_reuse_placeholder(SIGNATURE[0])
