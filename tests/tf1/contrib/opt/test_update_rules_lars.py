import numpy as np
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt


def test_what_is_skipped_gets_plain_momentum(session8):
    w, beta = tf.get_variable("w", initializer=[2.0]), tf.get_variable("bn/beta", initializer=[2.0])
    optimizer = opt.LARSOptimizer(0.5, weight_decay=0.1, eeta=1.0, skip_list=["beta", "gamma"])
    train_op = optimizer.minimize(tf.reduce_sum(w + beta))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    trust = 2.0 / (1.0 + 0.1 * 2.0)
    wanted = [[2 - 0.5 * trust * (1 + 0.1 * 2)], [1.5]]
    np.testing.assert_allclose(session8.run([w, beta]), wanted, rtol=1e-6)


def test_a_variable_or_gradient_of_zeros_gets_the_rate_itself(session8):
    w = tf.get_variable("w", initializer=[0.0])
    train_op = opt.LARSOptimizer(0.5).minimize(tf.reduce_sum(3 * w))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_allclose(session8.run(w), [-1.5])


def test_rows_get_plain_momentum_whose_slot_sums_gradients(session8):
    w = tf.get_variable("w", initializer=[[1.0], [2.0], [3.0]])
    optimizer = opt.LARSOptimizer(0.1, 0.5, weight_decay=0.1, eeta=1.0, use_nesterov=True)
    train_op = optimizer.minimize(tf.reduce_sum(3 * tf.gather(w, [2])))
    session8.run(tf.global_variables_initializer())
    for _ in range(2):
        session8.run(train_op)
    np.testing.assert_allclose(session8.run(optimizer.get_slot(w, "momentum")), [[0.0], [0.0], [3 * 1.5]])
    np.testing.assert_allclose(session8.run(w), [[1.0], [2.0], [3 - 0.3 * (1.5 + 1.75)]], rtol=1e-6)
