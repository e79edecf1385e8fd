import numpy as np
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt


def test_a_norm_over_all_dimensions_is_clipped_even_if_the_gradient_is_sparse(session8):
    w = tf.get_variable("w", initializer=[[3.0, 0.0], [0.0, 4.0]])
    inner = tf.train.MomentumOptimizer(1.0, 0.9)
    optimizer = opt.VariableClippingOptimizer(inner, {w: [0, 1]}, 1.0, colocate_clip_ops_with_vars=True)
    train_op = optimizer.minimize(0.0 * tf.reduce_sum(tf.gather(w, [0])))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    np.testing.assert_allclose(session8.run(w), [[0.6, 0.0], [0.0, 0.8]], rtol=1e-6)
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(w, "momentum") is inner.get_slot(w, "momentum")
    assert optimizer.variables() == inner.variables()


def test_gradients_are_clipped_by_their_norm_together(session8):
    pairs = [(tf.constant([3.0]), "v"), (tf.constant([4.0]), "w")]
    clipped = opt.clip_gradients_by_global_norm(pairs, clip_norm=1.0)
    assert [var for _, var in clipped] == ["v", "w"]
    np.testing.assert_allclose(session8.run([grad for grad, _ in clipped]), [[0.6], [0.8]], rtol=1e-6)
