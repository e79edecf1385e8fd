"""Tensors and operations by name."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.tfutils.graph_lookup import (
    get_op_or_tensor_by_name,
    get_tensors_by_names,
    gpu_available_in_session,
    near_names,
)


def test_tensors_are_found_with_and_without_their_output(graph: Any) -> None:
    first, second = tf.split(tf.constant([1, 2]), 2, name="split")
    assert get_tensors_by_names(["split", "split:0", "split:1"]) == [first, first, second]
    assert get_op_or_tensor_by_name("split") is first.op
    assert get_op_or_tensor_by_name(["split:1", "split"]) == [second, first.op]


def test_names_that_are_not_there_list_near_ones(graph: Any) -> None:
    for name in ("tower0/cost", "linear/output", "accuracy"):
        tf.constant(0, name=name)
    with pytest.raises(ConfigError, match="no tensor or operation 'cost' in the graph; near names: tower0/cost"):
        get_tensors_by_names(["cost"])
    with pytest.raises(ConfigError, match="near names: accuracy"):
        get_op_or_tensor_by_name("acuracy")
    with pytest.raises(ConfigError, match=r"no tensor 'accuracy:1': the operation has 1 output\(s\)"):
        get_tensors_by_names(["accuracy:1"])
    with pytest.raises(ConfigError, match="'xyz' in the graph$"):
        get_op_or_tensor_by_name("xyz")


def test_a_single_string_is_no_list(graph: Any) -> None:
    with pytest.raises(ConfigError, match="got names='cost': expected a list of names"):
        get_tensors_by_names("cost")


def test_near_names_are_few_and_come_once() -> None:
    known = [f"tower{k}/cost" for k in range(10)]
    assert near_names("cost", known) == "; near names: tower0/cost, tower1/cost, tower2/cost, tower3/cost, tower4/cost"
    assert near_names("cots", ["cost", "cost"]) == "; near names: cost"
    assert near_names("zzz", known) == ""


def test_gpus_are_those_of_the_default_session(graph: Any) -> None:
    with pytest.raises(ConfigError, match="needs a default session"):
        gpu_available_in_session()
    with cpu_session(num_cpus=1) as session:
        has_gpu = any(device.device_type == "GPU" for device in session.list_devices())
        assert gpu_available_in_session() is has_gpu
