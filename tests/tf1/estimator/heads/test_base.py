"""What all heads do with an optimizer, and what they refuse."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.regression import RegressionHead


def test_an_optimizer_minimizes_and_counts_and_update_ops_run(graph, session8):
    step, weight = tf.train.create_global_step(), tf.get_variable("w", [], initializer=tf.ones_initializer())
    counted = [tf.get_variable(name, [], initializer=tf.zeros_initializer(), trainable=False) for name in "ab"]
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, counted[0].assign_add(1, read_value=False))
    head, sgd = RegressionHead(), tf.train.GradientDescentOptimizer(0.1)
    logits = tf.ones([4, 1]) * weight
    spec = head.create_estimator_spec({}, "train", logits, tf.zeros([4]), sgd)
    given = head.create_estimator_spec(
        {}, "train", logits, tf.zeros([4]), train_op_fn=lambda loss: tf.no_op(), update_ops=[counted[1].assign_add(1)]
    )
    session8.run(tf.global_variables_initializer())
    session8.run(spec.train_op)
    session8.run(given.train_op)
    assert session8.run([step, *counted]) == [1, 1, 1]
    np.testing.assert_allclose(session8.run(weight), 1 - 0.1 * 2)


def test_a_head_predicts_what_is_asked_for(graph):
    head = RegressionHead(inverse_link_fn=tf.exp)
    assert head.predictions(tf.zeros([2, 1]), ["logits"]).keys() == {"logits"}
    with pytest.raises(ConfigError, match="got keys classes: expected some of predictions, logits"):
        head.predictions(tf.zeros([2, 1]), ["classes"])


def test_wrong_optimizers_are_refused(graph):
    head, logits = RegressionHead(), tf.zeros([2, 1])
    with pytest.raises(ConfigError, match="got none of optimizer and train_op_fn: expected one of them to train"):
        head.create_estimator_spec({}, "train", logits, tf.zeros([2]))
    sgd = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ConfigError, match="got both of optimizer and train_op_fn: expected one of them to train"):
        head.create_estimator_spec({}, "train", logits, tf.zeros([2]), sgd, train_op_fn=lambda loss: tf.no_op())
    with pytest.raises(ConfigError, match=r"got optimizer='SGD': expected a tf\.train\.Optimizer of TensorFlow 1"):
        head.create_estimator_spec({}, "train", logits, tf.zeros([2]), optimizer="SGD")


def test_what_minimizes_as_an_optimizer_does_is_one(graph, session8):
    class Wrapper:
        def minimize(self, loss, global_step):
            return global_step.assign_add(7)

    step, head, logits = tf.train.create_global_step(), RegressionHead(), tf.ones([2, 1])
    spec = head.create_estimator_spec({}, "train", logits, tf.zeros([2]), Wrapper())
    session8.run(tf.global_variables_initializer())
    session8.run(spec.train_op)
    assert session8.run(step) == 7


def test_a_loss_fn_takes_what_heads_give():
    def fixed(labels, logits, scale):
        return (labels - logits) * scale

    RegressionHead(loss_fn=functools.partial(fixed, scale=2))
    RegressionHead(loss_fn=lambda **given: given["labels"])
    for wrong in (fixed, lambda labels: labels, lambda logits: logits, lambda labels, logits, name=None: labels):
        with pytest.raises(ConfigError, match="expected labels and logits, and optionally features and loss_reduction"):
            RegressionHead(loss_fn=wrong)
