import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.optimizers.weight_decay import AdamW


def test_without_decay_it_is_adam(session8):
    start = np.float32([[1, -2], [3, 0.5]])
    pairs = [(AdamW(0.1, 0), "ours"), (tf.train.AdamOptimizer(0.1), "theirs")]
    variables = [tf.get_variable(name, initializer=start) for _, name in pairs]
    steps = [o.minimize(tf.reduce_sum(tf.sin(v)), var_list=[v]) for (o, _), v in zip(pairs, variables, strict=True)]
    session8.run(tf.global_variables_initializer())
    for _ in range(20):
        session8.run(steps)
    ours, theirs = session8.run(variables)
    np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(ours, start)


def test_a_partitioned_variable_is_left_out_by_the_name_of_the_whole(session8):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
        w = tf.get_variable("fc/b", [2], initializer=tf.ones_initializer())
    train_op = AdamW(0.5, 0.5, no_decay="fc/b$").minimize(0.0 * tf.reduce_sum(w))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_array_equal(session8.run(tf.identity(w)), [1.0, 1.0])


def test_an_average_that_would_never_move_is_refused(graph):
    w = tf.get_variable("w", [2], "bfloat16")
    with pytest.raises(ConfigError, match=r"beta2=0.999, which is 1 in the bfloat16 of w: expected .* float32"):
        AdamW(0.1).minimize(tf.reduce_sum(w))
