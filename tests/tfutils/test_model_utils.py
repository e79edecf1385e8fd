"""Tables of variables."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables
from tpack.tfutils.model_utils import describe_trainable_vars, get_shape_str, variable_table


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_trainable_variables_are_listed_with_totals(graph: Any, logged: list[str]) -> None:
    make_variables({"conv0/W": np.zeros((512, 1024), "float32"), "conv0/b": np.zeros(3, "float32")})
    tf.get_variable("step", [], trainable=False)
    describe_trainable_vars()
    assert len(logged) == 1
    title, header, _, *listed, total = rows(logged[0])
    assert title == ["The", "trainable", "variables:"]
    assert header == ["name", "shape", "#elements"]
    assert listed == [["conv0/W", "(512,", "1024)", "524,288"], ["conv0/b", "(3,)", "3"]]
    assert " ".join(total) == "Together 2 variables with 524,291 elements, 2.00 MB"


def test_graph_without_trainable_variables_is_a_warning(graph: Any, logged: list[str]) -> None:
    describe_trainable_vars()
    assert logged == ["There are no trainable variables in the graph."]


def test_device_and_dtype_are_shown_when_they_differ(graph: Any) -> None:
    make_variables({"a": np.zeros(2, "float32")})
    assert rows(variable_table(tf.global_variables()))[0] == ["name", "shape", "#elements"]
    with tf.device("/device:CPU:1"):
        make_variables({"b": np.zeros(2, "float64")})
    table = rows(variable_table(tf.global_variables()))
    assert table[0] == ["name", "shape", "#elements", "device", "dtype"]
    assert table[2] == ["a", "(2,)", "2", "float32"]
    assert table[3] == ["b", "(2,)", "2", "/device:CPU:1", "float64"]


def test_unknown_size_is_blank_and_counts_as_nothing(graph: Any, logged: list[str]) -> None:
    tf.Variable(tf.zeros([1]), use_resource=True, name="v", validate_shape=False, shape=tf.TensorShape([None]))
    describe_trainable_vars()
    assert ["v", "(None,)"] in rows(logged[0])
    assert logged[0].endswith("Together 1 variable with 0 elements, 0.00 MB")


def test_shapes_of_tensors_as_text(graph: Any) -> None:
    a, b = tf.zeros([2, 3]), tf.placeholder(tf.float32, [None, 4])
    assert get_shape_str(a) == "(2, 3)"
    assert get_shape_str([a, (b,)]) == "(2, 3), (None, 4)"
