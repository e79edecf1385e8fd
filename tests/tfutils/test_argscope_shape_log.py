"""Shapes of layers are logged once for each layer of a graph, and not for its copies."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.tfutils.argscope import _logging_disabled, disable_layer_logging, log_shapes
from tpack.tower.context import TowerContext


def test_a_layer_is_logged_once_a_graph() -> None:
    with captured_log() as lines:
        for _ in range(2):
            with tf.Graph().as_default():
                x = tf.placeholder(tf.float32, [None, 3])
                log_shapes("fc0", x, tf.zeros([5, 7]))
                log_shapes("fc0", x, x)
    assert lines == ["fc0                  [?, 3] --> [5, 7]"] * 2


def test_all_tensors_are_logged_and_other_things_left_out(graph: Any) -> None:
    with captured_log() as lines:
        log_shapes("split", [tf.zeros([]), tf.placeholder(tf.float32)], (tf.zeros([2]), None, 3))
    assert lines == ["split                [], [unknown rank] --> [2]"]


def test_other_towers_than_the_main_one_are_left_out(graph: Any) -> None:
    with captured_log() as lines:
        for index in (1, 0):
            with TowerContext("tower", is_training=True, index=index, total=2):
                log_shapes("fc", tf.zeros([index]), tf.zeros([index]))
    assert lines == ["fc                   [0] --> [0]"]


@pytest.fixture
def logging_comes_back():
    """Logging is off for the whole process, and other tests want it."""
    yield
    _logging_disabled.clear()


def test_logging_can_be_disabled(graph: Any, logging_comes_back: None) -> None:
    disable_layer_logging()
    with captured_log() as lines:
        log_shapes("fc", tf.zeros([1]), tf.zeros([1]))
    assert lines == []
