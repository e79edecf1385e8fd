"""Summaries by their own names."""

import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run
from tpack.tf1.contrib import layers


def test_summaries_of_tensors_and_activations(graph):
    rectified = tf.nn.relu6(tf.constant([0.0, 7.0, 3.0, 1.0]), name="out")
    tf.add_to_collection(tf.GraphKeys.ACTIVATIONS, rectified)
    tf.add_to_collection(tf.GraphKeys.WEIGHTS, tf.constant([1.0], name="w"))
    layers.summarize_tensor(tf.constant(2.0, name="x"))
    layers.summarize_tensor(tf.constant([2.0]), "mine")
    layers.summarize_activations()
    layers.summarize_weights()
    layers.summarize_collection(tf.GraphKeys.WEIGHTS, name_filter="v")
    kinds = ["x_summary", "mine", "out/zeros", "out/sixes", "out/activation", "w_summary"]
    assert names(tf.GraphKeys.SUMMARIES) == kinds
    values = {value.tag: value for value in tf.Summary.FromString(run(tf.summary.merge_all())).value}
    numbers = [values[kind].simple_value for kind in ("x_summary", "out/zeros", "out/sixes")]
    assert numbers == [2.0, 0.25, 0.25]
    assert values["out/activation"].histo.num == 4
