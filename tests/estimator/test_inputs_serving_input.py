"""What servers feed, and the features that come of it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.inputs import (
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    receiver_tensors_by_name,
)


def test_raw_features_are_placeholders(graph):
    features = {
        "x": tf.TensorSpec([7, 3], tf.float32),
        "y": np.zeros([5], "int32"),
        "any": tf.TensorSpec(None, tf.string),
    }
    receiver = build_raw_serving_input_receiver_fn(features)()
    assert receiver.features is receiver.receiver_tensors
    assert {name: (t.op.name, t.dtype, t.shape.rank) for name, t in receiver.features.items()} == {
        "x": ("x", tf.float32, 2),
        "y": ("y", tf.int32, 1),
        "any": ("any", tf.string, None),
    }
    assert receiver.features["x"].shape.as_list() == [None, 3]
    fixed = build_raw_serving_input_receiver_fn({"x": features["x"]}, default_batch_size=2)()
    assert fixed.features["x"].shape.as_list() == [2, 3]


def test_examples_are_parsed(session8):
    receive = build_parsing_serving_input_receiver_fn({"x": tf.FixedLenFeature([2], tf.float32)}, 1)
    receiver = receive()
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend([1.0, 2.0])
    (examples,) = receiver.receiver_tensors.values()
    assert examples.shape.as_list() == [1]
    fed = {examples: [example.SerializeToString()]}
    assert session8.run(receiver.features["x"], fed).tolist() == [[1, 2]]


def test_fed_tensors_have_names(graph):
    tensor = tf.constant(1)
    assert receiver_tensors_by_name(tensor) == {"input": tensor}
    assert receiver_tensors_by_name({"a": tensor}) == {"a": tensor}


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ConfigError, match=r"'x' has shape \(\): expected a batch dimension"):
        build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([], tf.float32)})
    with pytest.raises(ConfigError, match="got an empty feature_spec"):
        build_parsing_serving_input_receiver_fn({})
    with pytest.raises(ConfigError, match="receiver_tensors got 'a': 3: expected a tensor"):
        receiver_tensors_by_name({"a": 3})
