import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import seq2seq

DATA = np.arange(24, dtype="float32").reshape(3, 4, 2)
TABLE = np.array([[100.0, 101.0], [200.0, 201.0]], "float32")
# The second token, whatever is drawn.
LOGITS = np.array([[-1e9, 0.0]] * 3, "float32")


@pytest.mark.parametrize("probability", [[0.0, 1.0, 1.0], 0.0, 1.0])
def test_tokens_are_embedded_where_they_are_drawn(session8, probability):
    table = tf.constant(TABLE)
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(DATA, [4, 2, 4], table, probability, seed=1, scheduling_seed=2)
    ids = helper.sample(tf.constant(0), tf.constant(LOGITS), None)
    finished, inputs, state = helper.next_inputs(tf.constant(1), None, "state", ids)
    (_, first), ids, ended, inputs, gradient = session8.run(
        [helper.initialize(), ids, finished, inputs, tf.convert_to_tensor(tf.gradients(inputs, table)[0])]
    )
    is_drawn = np.broadcast_to(probability, [3]) > 0
    assert (ids.tolist(), ended.tolist(), state) == (
        [1 if drawn else -1 for drawn in is_drawn],
        [False, True, False],
        "state",
    )
    np.testing.assert_array_equal(first, DATA[:, 0])
    np.testing.assert_array_equal(inputs, np.where(is_drawn[:, np.newaxis], TABLE[1], DATA[:, 2]))
    np.testing.assert_array_equal(gradient, [[0.0, 0.0], [is_drawn.sum()] * 2])


@pytest.mark.parametrize("has_auxiliary", [True, False])
@pytest.mark.parametrize("has_function", [True, False])
def test_outputs_are_used_where_it_is_drawn(session8, has_auxiliary, has_function):
    more = np.full((3, 4, 1), 7.0, "float32") * np.arange(4, dtype="float32")[:, np.newaxis]
    helper = seq2seq.ScheduledOutputTrainingHelper(
        DATA,
        [4, 2, 4],
        [0.0, 1.0, 1.0],
        next_inputs_fn=(lambda outputs: outputs * 10) if has_function else None,
        auxiliary_inputs=more if has_auxiliary else None,
    )
    outputs = tf.constant(DATA[:, 3])
    ids = helper.sample(tf.constant(0), outputs, None)
    inputs = helper.next_inputs(tf.constant(1), outputs, "state", ids)[1]
    nothing = helper.next_inputs(tf.constant(1), outputs, "state", tf.zeros([3], tf.int32))[1]
    (_, first), ids, inputs, nothing = session8.run([helper.initialize(), ids, inputs, nothing])
    assert ids.tolist() == [0, 1, 1]
    wanted = np.array([DATA[0, 2], *DATA[1:, 3] * (10 if has_function else 1)])
    parts = [(DATA[:, 0], first, 0), (wanted, inputs, 2), (DATA[:, 2], nothing, 2)]
    for plain, got, time in parts:
        complete = np.concatenate([plain, more[:, time]], axis=1) if has_auxiliary else plain
        np.testing.assert_array_equal(got, complete)


@pytest.mark.parametrize("kind", ["embedding", "output"])
def test_a_draw_waits_for_the_outputs_of_its_step(session8, kind):
    steps = []
    outputs = tf.py_func(lambda: steps.append(1) or LOGITS, [], tf.float32)
    outputs.set_shape([3, 2])
    if kind == "output":
        helper = seq2seq.ScheduledOutputTrainingHelper(DATA, [4, 2, 4], 0.5)
    else:
        helper = seq2seq.ScheduledEmbeddingTrainingHelper(DATA, [4, 2, 4], tf.constant(TABLE), 0.5)
    helper.sample(tf.constant(0), outputs, None)
    (draw,) = (op for op in tf.get_default_graph().get_operations() if op.type == "RandomUniform")
    session8.run(draw)
    assert steps == [1]


@pytest.mark.parametrize("kind", ["embedding", "output"])
def test_a_matrix_of_probabilities_is_refused(graph, kind):
    with pytest.raises(ConfigError, match="got sampling_probability of shape .*: expected a scalar or a vector"):
        if kind == "output":
            seq2seq.ScheduledOutputTrainingHelper(DATA, [4, 2, 4], [[0.5]])
        else:
            seq2seq.ScheduledEmbeddingTrainingHelper(DATA, [4, 2, 4], TABLE, [[0.5]])
