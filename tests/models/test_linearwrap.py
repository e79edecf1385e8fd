"""Chains of layers give what the same calls one after the other give."""

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.models.conv2d import Conv2D
from tpack.models.fc import FullyConnected
from tpack.models.linearwrap import ConcatWith, LinearWrap
from tpack.models.pool import MaxPooling
from tpack.models.registry import layer_register


@layer_register(use_scope=None)
def LinearWrapShift(x: Any, by: float) -> Any:  # noqa: N802
    return x + by


def scale(name: str, x: Any, by: float) -> Any:
    return tf.multiply(x, by, name=name)


def test_chain_equals_calls(graph: Any, rng: np.random.Generator) -> None:
    x = tf.constant(rng.normal(size=(2, 4, 4, 3)))
    y = (
        LinearWrap(x)
        .Conv2D("conv", 4, 3)
        .MaxPooling("pool", 2)
        .LinearWrapShift(2.0)
        .LinearWrapShift("shift", by=1.0)
        .tf.nn.relu()
        .tf.transpose([0, 3, 1, 2])
        .apply(tf.pow, 2.0)
        .apply2(scale, "scaled", 3.0)
        .FullyConnected("fc", 5)()
    )
    with tf.variable_scope("", reuse=True):
        z = tf.nn.relu(MaxPooling("pool", Conv2D("conv", x, 4, 3), 2) + 3.0)
        z = FullyConnected("fc", 3.0 * tf.transpose(z, [0, 3, 1, 2]) ** 2, 5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, wanted = session.run([y, z])
    np.testing.assert_allclose(got, wanted, rtol=1e-10)
    assert graph.get_operation_by_name("scaled").type == "Mul"


def test_tensor_is_got_in_two_ways_and_logged(graph: Any) -> None:
    x = tf.zeros([2], name="x")
    with captured_log() as lines:
        assert LinearWrap(x).print_tensor().tensor() is x
    assert lines == [str(x)]
    assert LinearWrap(x)() is x


def test_unknown_layer_lists_near_names(graph: Any) -> None:
    with pytest.raises(AttributeError, match=r"LinearWrap has no layer 'Conv2d'; near names: .*Conv2D"):
        LinearWrap(tf.zeros([1])).Conv2d("c", 1, 1)
    with pytest.raises(AttributeError, match="no attribute 'reshapes'"):
        LinearWrap(tf.zeros([1])).tf.reshapes([1])


def test_layer_that_wants_a_name_says_so(graph: Any) -> None:
    with pytest.raises(ConfigError, match="Conv2D got .* first: expected its name"):
        LinearWrap(tf.zeros([1, 2, 2, 1])).Conv2D(3, 3)


def test_it_can_be_copied_like_any_object(graph: Any) -> None:
    x = tf.zeros([1])
    assert copy.copy(LinearWrap(x))() is x
    assert not hasattr(LinearWrap(x), "_anything")


def test_one_or_several_tensors_follow_the_first(graph: Any) -> None:
    a, b, c = (tf.fill([2, n], float(n)) for n in (1, 2, 3))
    with tf.Session() as session:
        assert session.run(ConcatWith(a, b, 1)).tolist() == [[1, 2, 2]] * 2
        assert session.run(ConcatWith("join", a, [b, c], dim=1)).tolist() == [[1, 2, 2, 3, 3, 3]] * 2


def test_layers_whose_modules_are_not_loaded_are_there() -> None:
    code = (
        "import sys, tensorflow.compat.v1 as tf; from tpack.models import LinearWrap; "
        "assert 'tpack.models.norms' not in sys.modules\n"
        "with tf.Graph().as_default(): print(LinearWrap(tf.zeros([2, 4, 4, 3])).InstanceNorm('norm')().op.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().startswith("norm/")
