"""How large a model is."""

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import slim


def test_sizes(graph):
    with tf.variable_scope("a"):
        tf.get_variable("w", [3, 4], use_resource=True)
        tf.get_variable("h", [5], tf.float16, use_resource=True)
    assert slim.model_analyzer.analyze_vars(tf.global_variables(), print_info=True) == (17, 58)
    assert slim.model_analyzer.tensor_description(tf.global_variables()[0]) == "(float32 3x4)"
    with tf.Graph().as_default() as other:
        tf.placeholder(tf.float32)
        tf.ones([3, 4])
        assert slim.model_analyzer.analyze_ops(other, print_info=True) == 12
