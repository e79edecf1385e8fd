"""Tensors from a function, called once for each tower; zeros of the wanted shapes; and placeholders that are shared."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.errors import ConfigError
from tpack.input_source import DummyConstantInput, PlaceholderInput, TensorInput
from tpack.input_source.tensors import build_or_reuse_placeholder


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
    with pytest.raises(ConfigError, match="TensorInput got get_tensor_fn=3: expected a function"):
        TensorInput(3)
    with pytest.raises(ConfigError, match="TensorInput got size=0: expected an integer of at least 1"):
        TensorInput(list, size=0)


def test_every_tower_has_zeros_on_its_device(graph):
    signature = [*SIGNATURE, tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([], tf.bool, "flag")]
    with running(DummyConstantInput([[4, 2], (), (1,), ()]), signature, num_towers=2) as run:
        for image, label, text, flag in run.step():
            np.testing.assert_array_equal(image, np.zeros([4, 2], np.float32))
            assert (label, text.tolist(), flag) == (0, [b""], False)
    assert [tower[0].device for tower in run.inputs] == ["/device:CPU:0", "/device:CPU:1"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4, 2)], "has 1 shapes, the signature has 2 entries"),
        ([(4, 3), ()], r"has the shape \(4, 3\) for 'image', the signature expects \(None, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error(graph, shapes, message):
    with pytest.raises(ConfigError, match=message):
        DummyConstantInput(shapes).setup(SIGNATURE)


def test_all_towers_have_the_same_placeholders(graph):
    with running(PlaceholderInput(), num_towers=2) as run:
        image, label = run.inputs[0]
        values = run.step({image: np.ones([4, 2]), label: 3})
    assert (image.name, label.name) == ("image:0", "label:0")
    assert all(one is other for one, other in zip(*run.inputs, strict=True))
    assert [int(label) for _, label in values] == [3, 3]


def test_a_placeholder_is_made_at_the_top_and_reused(graph):
    with tf.name_scope("inside"):
        first = build_or_reuse_placeholder(SIGNATURE[0])
    assert first.name == "image:0"
    assert build_or_reuse_placeholder(SIGNATURE[0]) is first


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.zeros([3, 2], name="image"),
        lambda: tf.placeholder(tf.int32, [None, 2], name="image"),
        lambda: tf.placeholder(tf.float32, [None, 3], name="image"),
        lambda: tf.placeholder(tf.float32, name="image"),
    ],
)
def test_something_else_of_that_name_is_an_error(graph, make):
    make()
    with pytest.raises(
        ConfigError, match=r"the graph has a .* 'image' .*: expected a placeholder of float32 \(None, 2\)"
    ):
        build_or_reuse_placeholder(SIGNATURE[0])
