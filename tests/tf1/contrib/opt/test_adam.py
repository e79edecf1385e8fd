import numpy as np
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt


def test_counters_are_those_of_tensorflow(graph):
    w = tf.get_variable("w", initializer=[1.0])
    made = {}
    for kind in (opt.AdaMaxOptimizer, opt.LazyAdamOptimizer, opt.NadamOptimizer, opt.AdamGSOptimizer):
        before = set(tf.global_variables())
        with tf.variable_scope(kind.__name__):
            kind().minimize(tf.reduce_sum(w))
        names = {var.op.name.rpartition("/")[2] for var in set(tf.global_variables()) - before}
        made[kind.__name__] = {name for name in names if name.startswith("beta")}
    both = {"beta1_power", "beta2_power"}
    assert made == {
        "AdaMaxOptimizer": {"beta1_power"},
        "LazyAdamOptimizer": both,
        "NadamOptimizer": both,
        "AdamGSOptimizer": set(),
    }


def test_a_rate_may_be_a_function(session8):
    w = tf.get_variable("w", initializer=[1.0])
    train_op = opt.NadamOptimizer(learning_rate=lambda: 0.0).minimize(tf.reduce_sum(w))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_allclose(session8.run(w), [1.0])
