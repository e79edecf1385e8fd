"""Configurations of layers, values of their variables, and what a layer tells of its calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_oracle import numbers
from tpack.errors import CheckpointError, ConfigError, MissingNameError, WrongTypeError

L = tf.layers
# Not made here: the first layer outside of a graph makes TensorFlow 1's default graph, for all tests after it.
MADE = [
    lambda: L.Dense(3, tf.nn.relu, kernel_initializer=tf.random_normal_initializer(stddev=0.2)),
    lambda: L.Conv1D(3, 2),
    lambda: L.Conv2D(3, 2, padding="SAME", strides=2, activation="tanh", name="first"),
    lambda: L.Conv3D(2, 2, use_bias=False),
    lambda: L.Conv2DTranspose(3, 2),
    lambda: L.Conv3DTranspose(3, 2),
    lambda: L.SeparableConv1D(3, 2),
    lambda: L.SeparableConv2D(3, 2, depth_multiplier=2),
    lambda: L.BatchNormalization(renorm=True, momentum=0.9, trainable=False),
    lambda: L.Dropout(0.3, seed=1),
    lambda: L.Flatten(),
    lambda: L.MaxPooling2D(2, 2),
    lambda: L.AveragePooling1D(2, 2, padding="same"),
    lambda: tf.nn.rnn_cell.GRUCell(3, activation=tf.nn.relu),
    lambda: tf.nn.rnn_cell.LSTMCell(3, use_peepholes=True, num_proj=2),
    lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(3)]),
    lambda: tf.contrib.rnn.LSTMBlockCell(3),
]


@pytest.mark.parametrize("make", MADE)
def test_a_configuration_makes_a_layer_of_the_same_configuration(make: Callable[[], Any]) -> None:
    layer = make()
    config = layer.get_config()
    twin = type(layer).from_config(config)
    assert twin.get_config() == config
    assert (twin.trainable, type(twin)) == (layer.trainable, type(layer))
    # That of a MultiRNNCell has its cells alone, in TensorFlow 1 as here.
    assert twin.name == layer.name or "name" not in config


def test_a_configuration_is_that_of_tensorflow_1() -> None:
    # The dicts are what 1.15 prints.
    layer = MADE[0]()
    dense, conv = layer.get_config(), MADE[2]().get_config()
    zeros = {"class_name": "Zeros", "config": {"dtype": "float32"}}
    normal = {"mean": 0.0, "stddev": 0.2, "seed": None, "dtype": "float32"}
    assert dense == {
        "name": layer.name,
        "trainable": True,
        "dtype": None,
        "units": 3,
        "activation": "relu",
        "use_bias": True,
        "kernel_initializer": {"class_name": "RandomNormal", "config": normal},
        "bias_initializer": zeros,
        **dict.fromkeys(("kernel_regularizer", "bias_regularizer", "activity_regularizer")),
        **dict.fromkeys(("kernel_constraint", "bias_constraint")),
    }
    wanted = {"kernel_size": (2, 2), "strides": (2, 2), "padding": "same", "activation": "tanh", "name": "first"}
    assert {name: conv[name] for name in wanted} == wanted
    assert [L.Dense(2, function).get_config()["activation"] for function in (None, tf.tanh)] == ["linear", "tanh"]


def test_a_layer_of_a_configuration_computes_the_same(session8: Any) -> None:
    x, regularizer = numbers(tf, [2, 4]), tf.contrib.layers.l2_regularizer(0.1)
    layer = L.Dense(3, tf.nn.relu, kernel_regularizer=regularizer, kernel_initializer=tf.ones_initializer())
    twin = L.Dense.from_config({**layer.get_config(), "name": "twin"})
    outputs = layer(x), twin(x)
    session8.run(tf.global_variables_initializer())
    one, other, losses = session8.run([*outputs, tf.losses.get_regularization_losses()])
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(losses, [0.1 * 12 / 2] * 2, rtol=1e-6)


class Scale(tf.layers.Layer):
    def __init__(self, by: float, *more: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.by = by


class Bare(tf.layers.Layer):
    def __init__(self, by: Any = 2) -> None:
        super().__init__()
        self._by = by


def test_layers_of_users_have_the_arguments_that_they_were_made_of() -> None:
    assert Scale(3, name="s", _scope="t").get_config() == {"name": "s", "trainable": True, "dtype": None, "by": 3}
    assert Scale.from_config(Scale(3, name="s").get_config()).by == 3
    assert (Bare(tf.float32).get_config(), Bare.from_config({"by": 4})._by) == ({"by": "float32"}, 4)
    with pytest.raises(ConfigError, match="Scale takes arguments without names: it has to say its get_config"):
        Scale(3, 4).get_config()
    with pytest.raises(WrongTypeError, match="Dense got color: it has no such argument"):
        L.Dense.from_config({"units": 3, "color": "red"})
    with pytest.raises(
        ConfigError, match="got the initializer .*expected {'class_name': ..., 'config': ...} with one of"
    ):
        L.Dense(3, kernel_initializer={"class_name": "Ones", "module": "keras"})


def test_values_of_variables_are_those_of_the_default_session(session8: Any) -> None:
    layer = L.Dense(2)
    assert layer.get_weights() == []
    layer(numbers(tf, [2, 3]))
    kernel, bias = np.arange(6.0).reshape(3, 2), np.array([7, 8])
    session8.run(tf.global_variables_initializer())
    layer.set_weights([kernel, bias])
    for got, wanted in zip(layer.get_weights(), [kernel, bias], strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == np.float32
    with pytest.raises(ConfigError, match="set_weights got 1 arrays: it has 2 variables"):
        layer.set_weights([kernel])
    with pytest.raises(CheckpointError, match="dense/bias"):
        layer.set_weights([kernel * 2, [1.0]])
    np.testing.assert_array_equal(layer.get_weights()[0], kernel)


def test_values_want_a_default_session(graph: Any) -> None:
    layer = L.Dense(2)
    layer(numbers(tf, [2, 3]))
    for call in (layer.get_weights, lambda: layer.set_weights([np.ones((3, 2)), np.ones(2)])):
        with pytest.raises(ConfigError, match="found no default session; use"):
            call()


def test_a_layer_tells_of_its_calls(graph: Any) -> None:
    layer = L.Dense(4)
    for name in ("input", "output", "input_shape", "output_shape"):
        assert not hasattr(layer, name)
    with pytest.raises(MissingNameError, match="has no input before its first call"):
        layer.input  # noqa: B018
    with pytest.raises(ConfigError, match="was called 0 times, and has no call 0"):
        layer.get_input_at(0)
    x = tf.placeholder(tf.float32, [None, 3])
    y = layer(x)
    assert (layer.input, layer.output) == (x, y)
    assert (layer.input_shape, layer.output_shape) == ((None, 3), (None, 4))
    z = layer(x)
    assert layer.input is x
    with pytest.raises(MissingNameError, match=r"was called 2 times and has no single output: use get_output_at\(0\)"):
        layer.output  # noqa: B018
    assert (layer.get_output_at(0), layer.get_output_at(1)) == (y, z)
    cell = tf.nn.rnn_cell.LSTMCell(5)
    cell(x, cell.zero_state(tf.shape(x)[0], tf.float32))
    assert (cell.input, cell.output_shape[0]) == (x, (None, 5))
