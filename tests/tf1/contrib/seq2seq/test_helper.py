import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import seq2seq

DATA = np.arange(24, dtype="float32").reshape(3, 4, 2)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_training_gives_the_data_step_by_step(session8, time_major, is_known):
    data = DATA.swapaxes(0, 1) if time_major else DATA
    inputs = tf.constant(data) if is_known else tf.placeholder_with_default(data, [None, None, 2])
    helper = seq2seq.TrainingHelper({"x": inputs}, [4, 2, 0], time_major=time_major)
    assert helper.inputs["x"].shape.as_list() == inputs.shape.as_list()
    assert (helper.sample_ids_shape.as_list(), helper.sample_ids_dtype) == ([], tf.int32)
    outputs = tf.constant([[0.0, 2.0, 1.0]] * 3)
    fetched = [helper.initialize(), helper.sample(0, outputs)]
    fetched += [helper.next_inputs(tf.constant(time), outputs, "state") for time in range(4)]
    (finished, first), samples, *steps = session8.run([fetched[0], fetched[1], *[step[:2] for step in fetched[2:]]])
    assert [step[2] for step in fetched[2:]] == ["state"] * 4
    assert finished.tolist() == [False, False, True]
    assert samples.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(first["x"], DATA[:, 0])
    wanted = [[False, False, True], [False, True, True], [False, True, True], [True, True, True]]
    assert [step[0].tolist() for step in steps] == wanted
    for time, step in enumerate(steps[:3]):
        np.testing.assert_array_equal(step[1]["x"], DATA[:, time + 1])
    # When all are over, nothing is read.
    np.testing.assert_array_equal(steps[3][1]["x"], np.zeros((3, 2)))
    assert session8.run([helper.batch_size, helper.sequence_length[0]]) == [3, 4]


@pytest.mark.parametrize("is_function", [True, False])
def test_greedy_goes_on_with_the_likeliest_token(session8, is_function):
    table = tf.constant(DATA[0])
    embedding = (lambda ids: tf.gather(table, ids)) if is_function else table
    helper = seq2seq.GreedyEmbeddingHelper(embedding, [1, 2], end_token=3)
    assert (helper.sample_ids_shape.as_list(), helper.sample_ids_dtype) == ([], tf.int32)
    logits = tf.constant([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0]])
    ids = helper.sample(0, logits, None)
    (finished, first), ids, (ended, following), size = session8.run(
        [helper.initialize(), ids, helper.next_inputs(0, logits, "s", ids)[:2], helper.batch_size]
    )
    assert (finished.tolist(), ids.tolist(), ended.tolist(), size) == ([False, False], [1, 3], [False, True], 2)
    np.testing.assert_array_equal(first, DATA[0, [1, 2]])
    np.testing.assert_array_equal(following, DATA[0, [1, 3]])


def test_samples_are_drawn_by_their_probability(session8):
    logits = tf.tile(tf.log([[0.1, 0.6, 0.3]]), [2000, 1])
    shares = []
    for temperature in (None, 0.5):
        helper = seq2seq.SampleEmbeddingHelper(tf.eye(3), tf.zeros([2000], tf.int32), 2, temperature, seed=4)
        ids = session8.run(helper.sample(0, logits, None))
        shares.append(np.bincount(ids, minlength=3) / 2000)
    cold = np.square([0.1, 0.6, 0.3])
    np.testing.assert_allclose(shares, [[0.1, 0.6, 0.3], cold / cold.sum()], atol=0.05)


@pytest.mark.parametrize("has_inputs_fn", [True, False])
def test_inference_asks_functions(session8, has_inputs_fn):
    helper = seq2seq.InferenceHelper(
        lambda outputs: outputs * 2,
        sample_shape=[2],
        sample_dtype=tf.float32,
        start_inputs=DATA[0],
        end_fn=lambda ids: tf.reduce_all(ids > 3, axis=1),
        next_inputs_fn=(lambda ids: ids + 1) if has_inputs_fn else None,
    )
    assert (helper.sample_ids_shape.as_list(), helper.sample_ids_dtype) == ([2], tf.float32)
    ids = helper.sample(0, tf.constant(DATA[0]), None)
    finished, inputs, state = helper.next_inputs(0, None, "state", ids)
    (started, first), ended, following, size = session8.run([helper.initialize(), finished, inputs, helper.batch_size])
    assert (started.tolist(), ended.tolist(), state, size) == ([False] * 4, [False, True, True, True], "state", 4)
    np.testing.assert_array_equal(first, DATA[0])
    np.testing.assert_array_equal(following, DATA[0] * 2 + has_inputs_fn)


def test_a_custom_helper_asks_three_functions(session8):
    helper = seq2seq.CustomHelper(
        lambda: (tf.constant([False, True]), "first"),
        lambda time, outputs, state: (time, outputs, state),
        lambda time, outputs, state, sample_ids: (time, outputs, state, sample_ids),
        sample_ids_shape=[2],
        sample_ids_dtype=tf.float32,
    )
    with pytest.raises(ConfigError, match="batch_size accessed before initialize was called"):
        helper.batch_size  # noqa: B018 (reading it is the test)
    assert helper.initialize()[1] == "first"
    assert session8.run(helper.batch_size) == 2
    assert (helper.sample_ids_shape.as_list(), helper.sample_ids_dtype) == ([2], tf.float32)
    assert helper.sample(1, 2, 3) == (1, 2, 3)
    assert helper.next_inputs(1, 2, 3, 4) == (1, 2, 3, 4)


def test_wrong_arguments_are_refused(graph):
    for lengths in (4, [[4]]):
        with pytest.raises(ConfigError, match="expected sequence_length to be a vector"):
            seq2seq.TrainingHelper(DATA, lengths)
    with pytest.raises(ConfigError, match="got start_tokens of shape .*: expected a vector"):
        seq2seq.GreedyEmbeddingHelper(DATA[0], [[1]], 1)
    with pytest.raises(ConfigError, match="got end_token of shape .*: expected a scalar"):
        seq2seq.GreedyEmbeddingHelper(DATA[0], [1], [1])
    for kind in (seq2seq.GreedyEmbeddingHelper, seq2seq.SampleEmbeddingHelper):
        with pytest.raises(WrongTypeError, match="expected outputs to be a single Tensor, got \\(1, 2\\)"):
            kind(DATA[0], [1], 1).sample(0, (1, 2), None)
    with pytest.raises(TypeError, match="abstract"):
        seq2seq.Helper()
