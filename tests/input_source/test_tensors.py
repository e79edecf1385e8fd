"""Tensors from a function: called once for each tower, with a size that may be known."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import running
from tpack.errors import ConfigError
from tpack.input_source import TensorInput


def test_the_function_is_called_once_for_each_tower_on_its_device(graph):
    made = []

    def make():
        made.append(tf.zeros([3, 2]))
        return made[-1], tf.constant(len(made))

    with running(TensorInput(make), num_towers=3) as run:
        assert run.labels(2) == [1, 2, 3, 1, 2, 3]
    assert [tensor.device for tensor in made] == [f"/device:CPU:{k}" for k in range(3)]
    assert made[0].op.name.startswith("TensorInput/")


def test_size_is_what_was_given():
    assert TensorInput(list, size=5).size() == 5
    with pytest.raises(NotImplementedError, match="size of TensorInput is not known"):
        TensorInput(list).size()


def test_bad_arguments_are_errors():
    with pytest.raises(ConfigError, match="takes a function that returns tensors, got 3"):
        TensorInput(3)
    with pytest.raises(ConfigError, match="must be positive, got 0"):
        TensorInput(list, size=0)
