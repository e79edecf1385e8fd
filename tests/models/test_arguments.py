"""What layers say about arguments that they cannot take, and the forms of padding that they take."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import (
    check_floating,
    check_rank,
    check_units,
    layer_name,
    parse_padding,
    parse_rule,
    static_channels,
)


def image(*shape: int | None, dtype: Any = tf.float32) -> Any:
    return tf.placeholder(dtype, shape, name="image")


def test_layer_name_is_that_of_the_variable_scope(graph: Any) -> None:
    assert layer_name("Conv2D") == "Conv2D"
    with tf.variable_scope("group0"), tf.variable_scope("conv1"):
        assert layer_name("Conv2D") == "Conv2D 'group0/conv1'"


def test_known_shapes_pass(graph: Any) -> None:
    x = image(None, 4, None, 3)
    assert check_rank("Conv2D", x, 2, 4) == 4
    assert check_floating("Conv2D", x) == tf.float32
    assert static_channels("Conv2D", x) == 3
    assert static_channels("Conv2D", x, "NCHW") == 4
    assert static_channels("BatchNorm", image(None, 7), "NCHW") == 7


@pytest.mark.parametrize("shape", [[None, 3], None])
def test_wrong_rank_names_layer_and_shape(graph: Any, shape: Any) -> None:
    x = tf.placeholder(tf.float32, shape, name="image")
    with (
        tf.variable_scope("conv0"),
        pytest.raises(ConfigError, match=r"Conv2D .conv0. got an input of shape .*: expected 4 dimensions"),
    ):
        check_rank("Conv2D", x, 4)


def test_integers_are_refused(graph: Any) -> None:
    with pytest.raises(ConfigError, match=r"Conv2D got an input of uint8 \(image:0\): expected floating-point"):
        check_floating("Conv2D", image(1, 2, dtype=tf.uint8))


def test_unknown_channels_name_the_dimension(graph: Any) -> None:
    with pytest.raises(ConfigError, match=r"shape \(None, None, 2, 2\) .*, dimension 1 \(channels_first\)"):
        static_channels("Conv2D", image(None, None, 2, 2), "NCHW")


@pytest.mark.parametrize("units", [3, np.int64(3), 3.0, np.float32(3), tf.Dimension(3)])
def test_whole_numbers_of_all_kinds_are_numbers_of_units(units: Any) -> None:
    number = check_units("Conv2D", "filters", units)
    assert number == 3 and type(number) is int


@pytest.mark.parametrize("units", [0, -1, 2.5, math.inf, math.nan, "3", None, True, tf.Dimension(None)])
def test_other_things_are_not(graph: Any, units: Any) -> None:
    with pytest.raises(ConfigError, match="Conv2D got filters=.*: expected a positive whole number"):
        check_units("Conv2D", "filters", units)


@pytest.mark.parametrize("text", ["same", "SAME", "Same"])
def test_rules_are_taken_in_any_case(text: str) -> None:
    assert parse_rule("Conv2D", text) == "SAME"
    assert parse_padding("Conv2D", text, channels_first=False) == "SAME"


@pytest.mark.parametrize(
    ("padding", "pairs"),
    [
        (2, [[2, 2], [2, 2]]),
        (np.int64(1), [[1, 1], [1, 1]]),
        ((0, 1), [[0, 0], [1, 1]]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (((1, 2), 3), [[1, 2], [3, 3]]),
    ],
)
def test_numbers_become_pairs(padding: Any, pairs: list[list[int]]) -> None:
    assert parse_padding("Conv2D", padding, channels_first=False) == pairs


def test_pairs_for_all_dimensions_follow_the_data_format() -> None:
    last, first = [[0, 0], [1, 2], [3, 4], [0, 0]], [[0, 0], [0, 0], [1, 2], [3, 4]]
    assert parse_padding("Conv2D", last, channels_first=False) == [[1, 2], [3, 4]]
    assert parse_padding("Conv2D", first, channels_first=True) == [[1, 2], [3, 4]]
    with pytest.raises(ConfigError, match="got padding=.*: expected 'same', 'valid', a number"):
        parse_padding("Conv2D", last, channels_first=True)


@pytest.mark.parametrize(
    "padding", [-1, True, None, [1], [1, 2, 3], [[1], [2]], [[1, -1], [0, 0]], [["a", "b"], 1], 1.5]
)
def test_other_things_are_refused(graph: Any, padding: Any) -> None:
    with tf.variable_scope("c"), pytest.raises(ConfigError, match=r"Conv2D 'c' got padding=.*: expected 'same'"):
        parse_padding("Conv2D", padding, channels_first=False)


@pytest.mark.parametrize("padding", ["full", "", 1])
def test_other_rules_are_refused(graph: Any, padding: Any) -> None:
    with pytest.raises(ConfigError, match="got padding=.*: expected 'same' or 'valid'"):
        parse_rule("MaxPooling", padding)
