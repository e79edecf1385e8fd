import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.seq2seq import sequence_loss

LOGITS = (np.arange(24).reshape(2, 3, 4) % 5 / 2.0).astype("float32")
TARGETS = np.array([[0, 1, 2], [1, 2, 3]])
WEIGHTS = np.array([[1.0, 1.0, 0.5], [1.0, 0.0, 0.0]], "float32")
TOKENS = -np.take_along_axis(LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True)), TARGETS[..., None], 2)[..., 0]
LOSSES = TOKENS * WEIGHTS
NONE = {"average_across_timesteps": False, "average_across_batch": False}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, LOSSES.sum() / 3.5),
        ({"average_across_timesteps": False}, LOSSES.sum(0) / [2.0, 1.0, 0.5]),
        ({"average_across_batch": False}, LOSSES.sum(1) / [2.5, 1.0]),
        (NONE, LOSSES),
        ({**NONE, "sum_over_timesteps": True, "sum_over_batch": True}, LOSSES.sum() / 4),
        ({**NONE, "sum_over_timesteps": True}, LOSSES.sum(1) / [3, 1]),
        ({**NONE, "sum_over_batch": True}, LOSSES.sum(0) / [2, 1, 1]),
        ({"average_across_batch": False, "sum_over_batch": True}, LOSSES.sum(1) / [2.5, 1.0]),
    ],
)
def test_losses_are_averaged_or_summed(session8, options, wanted):
    np.testing.assert_allclose(session8.run(sequence_loss(LOGITS, TARGETS, WEIGHTS, **options)), wanted, rtol=1e-5)


def test_the_loss_of_a_token_may_be_another_one(session8):
    loss = sequence_loss(
        LOGITS, TARGETS, WEIGHTS, softmax_loss_function=lambda labels, logits: tf.cast(labels, tf.float32)
    )
    np.testing.assert_allclose(session8.run(loss), (TARGETS * WEIGHTS).sum() / 3.5, rtol=1e-5)


def test_wrong_arguments_are_refused(graph):
    with pytest.raises(
        ConfigError, match=r"got logits of shape .*: expected \[batch_size x sequence_length x logits\]"
    ):
        sequence_loss(LOGITS[0], TARGETS, WEIGHTS)
    with pytest.raises(ConfigError, match=r"got targets of shape .*: expected \[batch_size x sequence_length\]"):
        sequence_loss(LOGITS, LOGITS, WEIGHTS)
    with pytest.raises(ConfigError, match=r"got weights of shape .*: expected \[batch_size x sequence_length\]"):
        sequence_loss(LOGITS, TARGETS, WEIGHTS[0])
    for what in ("timesteps", "batch"):
        with pytest.raises(ConfigError, match=f"average_across_{what} and sum_over_{what}"):
            sequence_loss(LOGITS, TARGETS, WEIGHTS, **{f"sum_over_{what}": True})
