"""Padding by a rule or by numbers, in all forms that are taken."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.steps import pad, parse_padding, parse_rule


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
    with pytest.raises(ConfigError, match="wants padding 'same', 'valid', a number"):
        parse_padding("Conv2D", last, channels_first=True)


@pytest.mark.parametrize(
    "padding", [-1, True, None, [1], [1, 2, 3], [[1], [2]], [[1, -1], [0, 0]], [["a", "b"], 1], 1.5]
)
def test_other_things_are_refused(graph: Any, padding: Any) -> None:
    with tf.variable_scope("c"), pytest.raises(ConfigError, match=r"Conv2D 'c' wants padding 'same'.*got"):
        parse_padding("Conv2D", padding, channels_first=False)


@pytest.mark.parametrize("padding", ["full", "", 1])
def test_other_rules_are_refused(graph: Any, padding: Any) -> None:
    with pytest.raises(ConfigError, match="wants padding 'same' or 'valid', got"):
        parse_rule("MaxPooling", padding)


def test_pad_adds_zeros_to_height_and_width(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    with tf.Session() as session:
        last, first = session.run([pad(tf.constant(x), [[1, 2], [0, 3]], fmt) for fmt in ("NHWC", "NCHW")])
    np.testing.assert_array_equal(last, np.pad(x, [[0, 0], [1, 2], [0, 3], [0, 0]]))
    np.testing.assert_array_equal(first, np.pad(x, [[0, 0], [0, 0], [1, 2], [0, 3]]))
