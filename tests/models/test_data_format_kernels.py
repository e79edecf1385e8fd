"""Where basic kernels are counted on, and that transposing around an operation changes nothing."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.models import data_format
from tpack.models.data_format import (
    has_basic_kernels,
    runs_on_cpu,
    steps_in_format,
    to_channels_first,
    to_channels_last,
)


@pytest.fixture
def gpu_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_format, "list_gpus", lambda: ["/device:GPU:0"])


def test_without_a_gpu_everything_runs_on_the_cpu(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_format, "list_gpus", lambda: [])
    with tf.device("/gpu:0"):
        assert runs_on_cpu()
    assert graph.get_operations() == []


@pytest.mark.parametrize(
    ("device", "on_cpu"),
    [
        ("", False),
        ("/gpu:0", False),
        ("/cpu:0", True),
        ("/job:worker/task:1/device:CPU:3", True),
        (lambda op: "/cpu:0" if op.type == "NoOp" else "/gpu:0", True),
    ],
)
def test_with_a_gpu_the_device_decides(graph: Any, gpu_machine: None, device: Any, on_cpu: bool) -> None:
    with tf.device(device):
        assert runs_on_cpu() is on_cpu


@pytest.mark.parametrize("onednn", [True, False])
def test_only_float32_with_onednn_has_more_than_basic_kernels(monkeypatch: pytest.MonkeyPatch, onednn: bool) -> None:
    monkeypatch.setattr(data_format, "list_gpus", lambda: [])
    monkeypatch.setattr(data_format, "is_onednn_enabled", lambda: onednn)
    assert has_basic_kernels(tf.float32) is not onednn
    assert has_basic_kernels(tf.float64)
    assert has_basic_kernels(tf.bfloat16)
    assert has_basic_kernels(tf.float16)


def test_on_a_gpu_no_kernel_is_basic(graph: Any, gpu_machine: None) -> None:
    assert not has_basic_kernels(tf.float16)


def test_transposing_there_and_back(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    with tf.Session() as session:
        last = session.run(to_channels_last(tf.constant(x)))
        np.testing.assert_array_equal(last, np.moveaxis(x, 1, 3))
        np.testing.assert_array_equal(session.run(to_channels_first(tf.constant(last))), x)


@pytest.mark.parametrize(
    ("basic", "channels_first", "formats", "types"),
    [
        (True, False, ["NHWC"], ["Relu"]),
        (False, False, ["NHWC"], ["Relu"]),
        (True, True, ["NHWC"], ["Transpose", "Relu", "Transpose"]),
        (False, True, ["NCHW"], ["Relu"]),
    ],
)
def test_steps_are_transposed_around_for_basic_kernels_only(
    graph: Any, monkeypatch: pytest.MonkeyPatch, basic: bool, channels_first: bool, formats: list[str], types: list[str]
) -> None:
    monkeypatch.setattr(data_format, "has_basic_kernels", lambda dtype: basic)
    asked = []

    def make_steps(data_format: str) -> list[Any]:
        asked.append(data_format)
        return [lambda x, name: tf.nn.relu(x, name=name)]

    x = tf.placeholder(tf.float32, [2, 3, 4, 5])
    for step in steps_in_format(make_steps, tf.float32, channels_first=channels_first):
        x = step(x, None)
    assert asked == formats
    assert [op.type for op in graph.get_operations() if op.type not in ("Placeholder", "Const")] == types
    assert x.shape == [2, 3, 4, 5]


@pytest.mark.usefixtures("graph")
def test_operations_in_a_loop_are_for_basic_kernels():
    found = []

    def body(i):
        found.append(has_basic_kernels(tf.float32))
        return i + 1

    tf.while_loop(lambda i: i < 2, body, [tf.constant(0)])
    assert found == [True] * len(found) != []
