import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import training


@pytest.mark.parametrize("is_clipped", [True, False])
def test_steps_are_made_until_a_hook_stops(graph, tmp_path, is_clipped):
    w = tf.get_variable("w", initializer=[3.0, 4.0])
    train_op = training.create_train_op(
        tf.reduce_sum(w * [3.0, 4.0]),
        tf.train.GradientDescentOptimizer(0.1),
        transform_grads_fn=training.clip_gradient_norms_fn(1.0) if is_clipped else None,
        summarize_gradients=True,
    )
    hooks = [tf.train.StopAtStepHook(num_steps=2)]
    loss = training.train(train_op, str(tmp_path), hooks=hooks, save_summaries_steps=1)
    step = np.array([0.6, 0.8]) if is_clipped else np.array([3.0, 4.0])
    np.testing.assert_allclose(loss, ([3, 4] - 0.1 * step) @ [3, 4], rtol=1e-6)
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert path.endswith("-2")
    np.testing.assert_allclose(tf.train.load_variable(path, "w"), [3, 4] - 0.2 * step, rtol=1e-6)
