import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt
from tpack.errors import WrongTypeError


@pytest.mark.parametrize("is_minimized", [True, False])
def test_only_the_variables_asked_for_decay(session8, is_minimized):
    w, b = tf.get_variable("w", initializer=[2.0]), tf.get_variable("b", initializer=[2.0])
    optimizer = opt.MomentumWOptimizer(0.1, 0.5, 0.9)
    loss = tf.reduce_sum(w + b)
    if is_minimized:
        train_op = optimizer.minimize(loss, decay_var_list=[w])
    else:
        train_op = optimizer.apply_gradients(optimizer.compute_gradients(loss), decay_var_list=[w])
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_allclose(session8.run([w, b]), [[2 * 0.9 - 0.5], [2 - 0.5]], rtol=1e-6)


def test_the_decay_may_be_a_function(session8):
    w = tf.get_variable("w", initializer=[2.0])
    train_op = opt.AdamWOptimizer(lambda: tf.constant(0.5), learning_rate=0.0).minimize(tf.reduce_sum(w))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_allclose(session8.run(w), [1.0])


def test_what_is_no_class_of_optimizers_is_refused():
    with pytest.raises(WrongTypeError, match="expected a class of tf.train.Optimizer"):
        opt.extend_with_decoupled_weight_decay(tf.train.AdamOptimizer())
