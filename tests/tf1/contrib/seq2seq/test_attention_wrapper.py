import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import seq2seq
from tpack.tf1.layers.core import Dense
from tpack.tf1.rnn_cell.lstm import GRUCell


@pytest.fixture
def memory(rng):
    return rng.normal(size=(3, 4, 2)).astype("float32")


def test_names_sizes_and_history_of_several_mechanisms(session8, memory, rng):
    mechanisms = [seq2seq.BahdanauAttention(6, memory, [4, 2, 1]), seq2seq.LuongAttention(5, memory)]
    wrapper = seq2seq.AttentionWrapper(GRUCell(5), mechanisms, [3, 4], alignment_history=True)
    assert wrapper.output_size == 7
    assert wrapper.state_size == seq2seq.AttentionWrapperState(5, 7, tf.TensorShape([]), (4, 4), (4, 4), (4, 4))
    inputs = rng.normal(size=(3, 2, 2)).astype("float32")
    helper = seq2seq.TrainingHelper(inputs, [2, 2, 2])
    decoder = seq2seq.BasicDecoder(wrapper, helper, wrapper.zero_state(3, tf.float32))
    outputs, state, _ = seq2seq.dynamic_decode(decoder)
    assert [var.op.name for var in tf.trainable_variables()] == [
        "memory_layer/kernel",
        "memory_layer_1/kernel",
        "decoder/attention_wrapper/gru_cell/gates/kernel",
        "decoder/attention_wrapper/gru_cell/gates/bias",
        "decoder/attention_wrapper/gru_cell/candidate/kernel",
        "decoder/attention_wrapper/gru_cell/candidate/bias",
        "decoder/attention_wrapper/bahdanau_attention/query_layer/kernel",
        "decoder/attention_wrapper/bahdanau_attention/attention_v",
        "decoder/attention_wrapper/attention_layer/kernel",
        "decoder/attention_wrapper/attention_layer_1/kernel",
    ]
    histories = [history.stack() for history in state.alignment_history]
    session8.run(tf.global_variables_initializer())
    outputs, (first, second), last, time = session8.run(
        [outputs.rnn_output, histories, (state.alignments, state.attention), state.time]
    )
    assert (time, first.shape, second.shape, outputs.shape) == (2, (2, 3, 4), (2, 3, 4), (3, 2, 7))
    np.testing.assert_allclose([first.sum(2), second.sum(2)], np.ones((2, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(first[:, 2, 1:], np.zeros((2, 3)))
    np.testing.assert_array_equal([first[1], second[1]], last[0])
    np.testing.assert_array_equal(outputs[:, 1], last[1])


@pytest.mark.parametrize("output_attention", [True, False])
@pytest.mark.parametrize("layer", [None, "size", "layer"])
def test_a_step_is_the_cell_then_the_memory(session8, memory, rng, output_attention, layer):
    cell = GRUCell(2, name="cell")
    mechanism = seq2seq.LuongAttention(2, memory)
    options = {"size": {"attention_layer_size": 3}, "layer": {"attention_layer": Dense(3, use_bias=False)}}
    wrapper = seq2seq.AttentionWrapper(
        cell,
        mechanism,
        output_attention=output_attention,
        initial_cell_state=tf.constant(rng.normal(size=(3, 2)), tf.float32),
        cell_input_fn=lambda inputs, attention: tf.concat([attention, inputs], -1),
        name="mine",
        **options.get(layer, {}),
    )
    state = wrapper.zero_state(3, tf.float32)
    seen = rng.normal(size=(3, 3 if layer else 2)).astype("float32")
    state = state.clone(attention=tf.constant(seen))
    inputs = rng.normal(size=(3, 2)).astype("float32")
    output, after = wrapper(tf.constant(inputs), state)
    assert all(var.op.name.split("/")[0] in ("mine", "memory_layer") for var in tf.trainable_variables())
    assert len(wrapper.trainable_weights) >= 4
    with tf.variable_scope("mine", reuse=True):
        wanted_output, wanted_state = cell(tf.concat([seen, inputs], -1), state.cell_state)
    session8.run(tf.global_variables_initializer())
    output, after, wanted_output, wanted_state, keys = session8.run(
        [output, after, wanted_output, wanted_state, mechanism.keys]
    )
    scores = np.exp(np.einsum("bu,bsu->bs", wanted_output, keys))
    alignments = scores / scores.sum(1, keepdims=True)
    attention = np.einsum("bs,bsd->bd", alignments, memory)
    if layer:
        kernel = next(var for var in tf.trainable_variables() if var.shape.as_list() == [4, 3])
        attention = np.concatenate([wanted_output, attention], 1) @ session8.run(kernel)
    np.testing.assert_allclose(after.alignments, alignments, rtol=1e-5)
    np.testing.assert_array_equal(after.attention_state, after.alignments)
    np.testing.assert_allclose(after.attention, attention, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after.cell_state, wanted_state, rtol=1e-5)
    np.testing.assert_allclose(output, attention if output_attention else wanted_output, rtol=1e-4, atol=1e-6)
    assert (after.time, after.alignment_history) == (1, ())


def test_attention_may_be_computed_by_a_function(session8, memory):
    def attend(mechanism, cell_output, attention_state, attention_layer):
        return cell_output * 2, attention_state, attention_state

    wrapper = seq2seq.AttentionWrapper(GRUCell(2), seq2seq.LuongAttention(2, memory), attention_fn=attend)
    attention, state = wrapper(tf.ones([3, 2]), wrapper.zero_state(3, tf.float32))
    session8.run(tf.global_variables_initializer())
    attention, output = session8.run([attention, state.cell_state])
    np.testing.assert_allclose(attention, 2 * output)


def test_a_state_is_cloned_with_other_values_of_the_same_shape(graph, memory):
    wrapper = seq2seq.AttentionWrapper(GRUCell(2), seq2seq.LuongAttention(2, memory), alignment_history=True)
    state = wrapper.zero_state(3, tf.float32)
    other = tf.placeholder(tf.float32, [None, 2])
    clone = state.clone(cell_state=other)
    assert clone.cell_state is other
    assert other.shape.as_list() == [3, 2]
    assert clone.clone(alignment_history=state.alignment_history).alignments is state.alignments
    with pytest.raises(ConfigError, match=r"invalid shape for cell_state: expected \(3, 2\), got \(3, 4\)"):
        state.clone(cell_state=tf.zeros([3, 4]))
    with pytest.raises(ConfigError, match=r"unexpected field names: \['foo'\]"):
        state.clone(foo=1)
    with pytest.raises(ValueError, match="same nested structure"):
        state.clone(cell_state=(tf.zeros([3, 2]),))


def test_batches_that_differ_are_refused(session8, memory):
    mechanism = seq2seq.LuongAttention(2, memory)
    wrapper = seq2seq.AttentionWrapper(GRUCell(2), mechanism)
    with pytest.raises(tf.errors.InvalidArgumentError, match="tile the encoder output by tile_batch"):
        wrapper.zero_state(5, tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="tile the initial state by tile_batch"):
        seq2seq.AttentionWrapper(GRUCell(2), mechanism, initial_cell_state=tf.zeros([5, 2]))
    unknown = wrapper.zero_state(tf.placeholder_with_default(5, []), tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size \\* beam_width"):
        session8.run(unknown.cell_state)


def test_wrong_arguments_are_refused(graph, memory):
    cell, mechanism = GRUCell(2), seq2seq.LuongAttention(2, memory)
    with pytest.raises(WrongTypeError, match="cell=1: expected an RNNCell"):
        seq2seq.AttentionWrapper(1, mechanism)
    for given in (1, [mechanism, 1]):
        with pytest.raises(WrongTypeError, match="attention_mechanism=1: expected an AttentionMechanism or a list"):
            seq2seq.AttentionWrapper(cell, given)
    with pytest.raises(WrongTypeError, match="cell_input_fn=3: expected a function"):
        seq2seq.AttentionWrapper(cell, mechanism, cell_input_fn=3)
    with pytest.raises(ConfigError, match="got 1 attention_layer_size: expected one for each of 2"):
        seq2seq.AttentionWrapper(cell, [mechanism, mechanism], attention_layer_size=3)
    with pytest.raises(ConfigError, match="only one of attention_layer_size and attention_layer"):
        seq2seq.AttentionWrapper(cell, mechanism, attention_layer_size=3, attention_layer=Dense(3))
    wrapper = seq2seq.AttentionWrapper(cell, mechanism)
    with pytest.raises(WrongTypeError, match="expected an AttentionWrapperState, got"):
        wrapper(tf.ones([3, 2]), (1,))
