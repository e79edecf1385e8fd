import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt


@pytest.mark.parametrize("sparse", [False, True])
def test_slots_stay_where_they_are_not_to_be_updated(session8, sparse):
    w = tf.get_variable("w", initializer=[1.0, 1.0])
    optimizer = opt.RegAdagradOptimizer(0.5)
    loss = tf.reduce_sum(tf.gather(w, [0, 1]) if sparse else w)
    with optimizer.avoid_updating_slots():
        quiet = optimizer.minimize(loss)
    counting = optimizer.minimize(loss)
    accumulator = optimizer.get_slot(w, "accumulator")
    session8.run(tf.global_variables_initializer())
    session8.run(quiet)
    np.testing.assert_allclose(session8.run(accumulator), [0.1, 0.1])
    np.testing.assert_allclose(session8.run(w), np.full(2, 1 - 0.5 / np.sqrt(0.1)), rtol=1e-6)
    session8.run(counting)
    np.testing.assert_allclose(session8.run(accumulator), [1.1, 1.1])
