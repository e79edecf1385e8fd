"""Variables by scope, name and suffix; the names and collections are those of TensorFlow 1.15."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import framework
from tpack.tf1.contrib.framework.variables import VariableDeviceChooser, parts_of

KEYS = tf.GraphKeys


def names(variables):
    return [variable.op.name for variable in variables]


@pytest.fixture
def made(graph):
    """The variables ``a/weights``, ``a/biases`` and ``b/weights``, and a local one."""
    with tf.variable_scope("a"):
        framework.model_variable("weights", [2], collections=["mine"], regularizer=tf.nn.l2_loss)
        framework.variable("biases", [2], trainable=False)
    with tf.variable_scope("b"):
        framework.model_variable("weights", [2])
    framework.local_variable(tf.zeros([2]), name="local")
    return graph


def test_variables_are_in_their_collections(made):
    assert names(tf.global_variables()) == ["a/weights", "a/biases", "b/weights"]
    assert names(tf.trainable_variables()) == ["a/weights", "b/weights"]
    assert names(framework.get_model_variables()) == ["a/weights", "b/weights"]
    assert names(tf.get_collection("mine")) == ["a/weights"]
    assert names(framework.get_local_variables()) == ["local"]
    assert len(tf.losses.get_regularization_losses()) == 1
    with tf.variable_scope("a", reuse=True):
        framework.add_model_variable(framework.model_variable("weights", [2]))
    assert names(framework.get_model_variables()) == ["a/weights", "b/weights"]
    framework.global_variable(1.0, name="other")
    assert names(tf.global_variables())[-1] == "other"


def test_variables_are_found(made):
    assert names(framework.get_variables("a")) == ["a/weights", "a/biases"]
    assert names(framework.get_variables("a", "weights")) == ["a/weights"]
    assert names(framework.get_variables_by_suffix("weights")) == ["a/weights", "b/weights"]
    assert names(framework.get_variables_by_name("weights")) == ["a/weights", "b/weights"]
    assert names(framework.get_variables_by_name("ts")) == []
    assert names(framework.get_variables_by_name("a/weights")) == ["a/weights"]
    assert names(framework.get_trainable_variables("b")) == ["b/weights"]
    with tf.variable_scope("b") as scope:
        assert names(framework.get_variables(scope)) == ["b/weights"]
    assert framework.get_unique_variable("a/weights").op.name == "a/weights"
    with pytest.raises(ConfigError, match="expected the name of a variable of the graph, with its scopes"):
        framework.get_unique_variable("weights")


def test_variables_to_restore(made):
    assert names(framework.get_variables_to_restore(exclude=["a"])) == ["b/weights"]
    assert names(framework.get_variables_to_restore(["a"], ["a/b"])) == ["a/weights"]
    with pytest.raises(WrongTypeError, match="expected a list of scopes or None"):
        framework.get_variables_to_restore(include="a")


def test_variables_are_filtered(made):
    every = tf.global_variables()
    assert names(framework.filter_variables(every, ["weights"], ["^b"])) == ["a/weights"]
    assert names(framework.filter_variables(every, ["weights"], reg_search=False)) == []
    assert names(framework.filter_variables(every, exclude_patterns="weights")) == ["a/biases"]


def test_parts_of_a_variable_are_in_the_model(graph):
    with tf.variable_scope("c", partitioner=tf.fixed_size_partitioner(2)):
        whole = framework.model_variable("w", [4, 2])
    assert names(framework.get_model_variables()) == ["c/w/part_0", "c/w/part_1"]
    assert {framework.get_variable_full_name(part) for part in parts_of(whole)} == {"c/w"}


def test_a_getter_and_a_device_of_ones_own(graph):
    assert framework.variable("d", [2], device="/cpu:3").device == "/device:CPU:3"
    chooser = VariableDeviceChooser(num_tasks=2)
    devices = [framework.variable(f"v{number}", [2], device=chooser).device for number in range(3)]
    assert devices == [f"/job:ps/task:{task}/device:CPU:0" for task in (0, 1, 0)]
    assert VariableDeviceChooser(replica=1)(None) == "/replica:1/device:CPU:0"
    made = framework.variable("e", [2], custom_getter=lambda name, **options: (name, options["shape"]))
    assert made == ("e", [2])


def test_the_global_step(graph):
    assert framework.get_global_step() is None
    step = framework.create_global_step()
    assert framework.get_or_create_global_step() is step
    assert framework.assert_or_get_global_step() is framework.assert_or_get_global_step(global_step_tensor=step) is step
    with pytest.raises(TypeError):
        framework.assert_global_step(tf.zeros([]))
