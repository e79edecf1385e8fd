"""What layers want of their inputs, and what they say to others."""

from typing import Any

import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_oracle import numbers
from tpack.errors import ConfigError


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ndim": 3}, "expected 3 dimensions"),
        ({"max_ndim": 1}, "expected at most 1 dimensions"),
        ({"min_ndim": 3}, "expected at least 3 dimensions"),
        ({"dtype": "int32"}, "expected int32"),
        ({"shape": [None, 4]}, "expected 4 as the size of dimension 1"),
        ({"axes": {-1: 4}}, "expected 4 as the size of dimension -1"),
        ({"axes": {3: 4}}, "expected a dimension 3"),
    ],
)
def test_inputs_are_held_against_the_specification(graph: Any, spec: Any, message: str) -> None:
    layer = tf.layers.Layer()
    layer.input_spec = tf.layers.InputSpec(**spec)
    with pytest.raises(ConfigError, match=message):
        layer(numbers(tf, [2, 3]))
    layer.input_spec = [tf.layers.InputSpec(ndim=2), tf.layers.InputSpec(dtype="float32", axes={0: 2, 1: None})]
    layer((numbers(tf, [2, 3]), numbers(tf, [2, 3])))
    with pytest.raises(ConfigError, match="got 1 inputs: expected 2"):
        layer(numbers(tf, [2, 3]))


def test_a_specification_shows_what_it_wants() -> None:
    assert repr(tf.layers.InputSpec(min_ndim=2, axes={-1: 3})) == "InputSpec(min_ndim=2, axes={-1: 3})"
