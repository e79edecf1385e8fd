"""Train ops and the loop that runs them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run
from tpack.errors import ConfigError
from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim import learning


@pytest.fixture
def loss(graph):
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=True)
    return tf.reduce_sum(tf.constant([3.0, 4.0]) * w, name="loss")


def descent(rate=0.1):
    return tf.train.GradientDescentOptimizer(rate)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [0.7, 0.6]), ({"clip_gradient_norm": 1.0}, [0.94, 0.92]), ({"gradient_multipliers": {"w": 2.0}}, [0.4, 0.2])],
)
def test_a_train_op_makes_a_step(loss, options, expected):
    ran = tf.get_variable("ran", [], initializer=tf.zeros_initializer(), trainable=False, use_resource=True)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, ran.assign_add(1.0).op)
    train_op = learning.create_train_op(loss, descent(), summarize_gradients=True, **options)
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[-1] is train_op
    assert names(tf.GraphKeys.SUMMARIES) == ["summarize_grads/w_gradient", "summarize_grads/w_gradient_norm"]
    w, step = tf.trainable_variables()[0], tf.train.get_global_step()
    value, after = run(train_op, then=[w, step, ran])
    assert value == 7.0
    np.testing.assert_allclose(after[0], expected, rtol=1e-6)
    assert after[1:] == [1, 1.0]


def test_a_loss_that_is_no_number_fails(loss):
    train_op = learning.create_train_op(loss / 0.0, descent(), global_step=None)
    assert tf.train.get_global_step() is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
        run(train_op)


def test_gradients_are_changed(loss):
    rows = tf.get_variable("rows", [3, 2], use_resource=True)
    (sparse,) = tf.gradients(2 * tf.reduce_sum(tf.nn.embedding_lookup(rows, [1])), rows)
    pairs = [(sparse, rows), (None, tf.trainable_variables()[0])]
    doubled, clipped = learning.multiply_gradients(pairs, {"rows": 2.0}), learning.clip_gradient_norms(pairs, 1.0)
    assert (doubled[1][0], clipped[1][0]) == (None, None)
    results = run([doubled[0][0].values, clipped[0][0].values])
    np.testing.assert_allclose(results, [[[4.0, 4.0]], [[0.5**0.5] * 2]], rtol=1e-6)
    assert len(learning.add_gradients_summaries(pairs)) == 2
    with pytest.raises(ConfigError, match="has no gradient"):
        learning.multiply_gradients(pairs, {"w": 2.0})
    with pytest.raises(ConfigError, match=r"got gradient_multipliers=\[1\.0\]: expected a dict with entries"):
        learning.multiply_gradients(pairs, [1.0])
    with pytest.raises(ConfigError, match="expected trainable variables"):
        learning.create_train_op(loss, descent(), variables_to_train=[tf.train.create_global_step()])


def build():
    x = tf.constant(np.random.RandomState(0).randn(8, 3).astype("f"))
    outputs = slim.fully_connected(x, 2, activation_fn=None, normalizer_fn=slim.batch_norm)
    slim.losses.mean_squared_error(outputs, tf.ones([8, 2]))
    tf.summary.scalar("one", 1.0)
    return learning.create_train_op(slim.losses.get_total_loss(), descent(0.5))


def test_training_goes_on_from_its_checkpoint(log_dir):
    losses, begun = [], []
    for number_of_steps in (4, 9, 9):
        with tf.Graph().as_default():
            train_op = build()
            init_fn = lambda session: begun.append(number_of_steps)  # noqa: E731, B023 (called before the loop goes on)
            losses.append(
                learning.train(
                    train_op, str(log_dir), number_of_steps=number_of_steps, log_every_n_steps=2, init_fn=init_fn
                )
            )
    assert begun == [4]
    assert losses[1] < losses[0]
    assert losses[2] is None
    assert tf.train.latest_checkpoint(log_dir).endswith("model.ckpt-9")
    assert {"fully_connected/BatchNorm/moving_mean", "global_step"} <= {
        name for name, _ in tf.train.list_variables(str(log_dir))
    }


def test_a_step_of_ones_own_says_when_to_stop(graph):
    seen = []

    def step_fn(session, train_op, global_step, kwargs):
        loss, should_stop = learning.train_step(session, train_op, global_step, {})
        seen.append((kwargs["word"], float(loss), should_stop))
        return loss, len(seen) == 3

    wrapped = []
    last = learning.train(
        build(),
        None,
        step_fn,
        {"word": "yes"},
        session_wrapper=lambda session: wrapped.append(session) or session,
        init_op=tf.global_variables_initializer(),
    )
    assert [word for word, _, _ in seen] == ["yes"] * 3
    assert (last, len(wrapped), any(stop for _, _, stop in seen)) == (pytest.approx(seen[-1][1]), 1, False)


def test_the_end_of_the_data_ends_training(log_dir, graph):
    (batch,) = (tf.train.limit_epochs(tf.ones([1]), num_epochs=3),)
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    train_op = learning.create_train_op(tf.reduce_sum(batch * w), descent())
    learning.train(train_op, str(log_dir), save_summaries_secs=None)
    assert tf.train.latest_checkpoint(log_dir).endswith("model.ckpt-3")


def test_what_is_for_other_processes_is_refused(loss):
    for name, value in (("master", "grpc://a"), ("startup_delay_steps", 3), ("trace_every_n_steps", 2)):
        with pytest.raises(ConfigError, match=f"got {name}=.*: expected none"):
            learning.train(loss, None, **{name: value})
    with pytest.raises(ConfigError, match="number_of_steps"):
        learning.train(loss, None, number_of_steps=0)
