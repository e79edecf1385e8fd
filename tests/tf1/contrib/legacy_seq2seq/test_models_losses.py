"""The cross-entropy of lists, and models for several lengths."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import legacy_seq2seq

LOGITS = np.array([[[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]], [[1.0, 1.0, 1.0], [0.5, 0.0, 0.0]]], np.float32)
TARGETS = np.array([[0, 2], [1, 0]], np.int32)
WEIGHTS = np.array([[1.0, 0.5], [1.0, 0.0]], np.float32)
ARRAYS = ([*LOGITS], [*TARGETS], [*WEIGHTS])


def losses_of_steps():
    logs = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, TARGETS[..., None], -1)[..., 0] * WEIGHTS


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("batch", [True, False])
def test_sequence_losses_are_weighted_means(graph, steps, batch):
    lists = [[tf.constant(each) for each in arrays] for arrays in ARRAYS]

    by_example = legacy_seq2seq.sequence_loss_by_example(*lists, average_across_timesteps=steps)
    total = legacy_seq2seq.sequence_loss(*lists, average_across_timesteps=steps, average_across_batch=batch)

    wanted = losses_of_steps().sum(0) / (WEIGHTS.sum(0) if steps else 1)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(by_example), wanted, rtol=1e-5)
        np.testing.assert_allclose(session.run(total), wanted.sum() / (2 if batch else 1), rtol=1e-5)


def test_a_loss_of_the_users_takes_the_place_of_the_cross_entropy(graph):
    lists = [[tf.constant(each) for each in arrays] for arrays in ARRAYS]

    loss = legacy_seq2seq.sequence_loss_by_example(
        *lists, softmax_loss_function=lambda labels, logits: logits[:, 0] + tf.cast(labels, tf.float32)
    )

    with tf.Session() as session:
        wanted = ((LOGITS[:, :, 0] + TARGETS) * WEIGHTS).sum(0) / WEIGHTS.sum(0)
        np.testing.assert_allclose(session.run(loss), wanted, rtol=1e-5)


@pytest.mark.parametrize("each", [True, False])
def test_buckets_share_variables_and_take_the_beginning_of_lists(graph, each):
    logits, targets, weights = ([tf.constant(array) for array in arrays] for arrays in ARRAYS)

    def model(read, given):
        scale = tf.get_variable("scale", [], initializer=tf.ones_initializer())
        return [scale * step + 0.0 * read[0] for step in given], None

    outputs, losses = legacy_seq2seq.model_with_buckets(
        logits, logits, targets, weights, [(1, 1), (2, 2)], model, per_example_loss=each
    )

    assert [len(part) for part in outputs] == [1, 2]
    assert [variable.name for variable in tf.global_variables()] == ["scale:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        short, whole = session.run(losses)
    steps = losses_of_steps()
    wanted = [steps[0] / WEIGHTS[0], steps.sum(0) / WEIGHTS.sum(0)]
    np.testing.assert_allclose(short, wanted[0] if each else wanted[0].mean(), rtol=1e-5)
    np.testing.assert_allclose(whole, wanted[1] if each else wanted[1].mean(), rtol=1e-5)


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(ConfigError, match="expected lists of one length"):
        legacy_seq2seq.sequence_loss_by_example(ARRAYS[0], ARRAYS[1][:1], ARRAYS[2])
    with pytest.raises(ConfigError, match="expected the 3 steps of the last bucket"):
        legacy_seq2seq.model_with_buckets([1, 2], [], [1, 2], [1, 2, 3], [(1, 2), (2, 3)], lambda *_: None)
