import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.tf1.contrib import seq2seq
from tpack.tf1.layers.core import Dense
from tpack.tf1.rnn_cell.lstm import BasicLSTMCell, GRUCell


def test_training_is_dynamic_rnn_with_a_layer_on_top(session8, rng):
    data, lengths = rng.normal(size=(3, 4, 2)).astype("float32"), [4, 2, 1]
    cell, layer = BasicLSTMCell(5), Dense(7)
    helper = seq2seq.TrainingHelper(data, lengths)
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32), layer)
    assert decoder.output_size == seq2seq.BasicDecoderOutput(tf.TensorShape([7]), tf.TensorShape([]))
    assert decoder.output_dtype == seq2seq.BasicDecoderOutput(tf.float32, tf.int32)
    outputs, state, got_lengths = seq2seq.dynamic_decode(decoder, impute_finished=True)
    assert [var.op.name for var in tf.trainable_variables()] == [
        "decoder/basic_lstm_cell/kernel",
        "decoder/basic_lstm_cell/bias",
        "decoder/dense/kernel",
        "decoder/dense/bias",
    ]
    with tf.variable_scope("decoder", reuse=True):
        hidden, wanted_state = tf.nn.dynamic_rnn(cell, data, lengths, dtype=tf.float32, scope=tf.get_variable_scope())
    weights, bias = layer.kernel, layer.bias
    wanted = tf.tensordot(hidden, weights, 1) + bias
    gradients = [tf.gradients(tf.reduce_sum(tf.square(s.c) * 2 + s.h), cell.weights) for s in (state, wanted_state)]
    session8.run(tf.global_variables_initializer())
    outputs, state, got_lengths, wanted, wanted_state, gradients = session8.run(
        [outputs, state, got_lengths, wanted, wanted_state, gradients]
    )
    counts = np.arange(4) < np.array(lengths)[:, np.newaxis]
    np.testing.assert_allclose(outputs.rnn_output, wanted * counts[:, :, np.newaxis], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs.sample_id, wanted.argmax(-1) * counts)
    assert got_lengths.tolist() == lengths
    for got, expected in zip([*state, *gradients[0]], [*wanted_state, *gradients[1]], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_the_output_may_be_that_of_the_cell(graph):
    cell = GRUCell(5)
    helper = seq2seq.TrainingHelper(tf.placeholder(tf.float32, [None, None, 2]), tf.placeholder(tf.int32, [None]))
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(helper.batch_size, tf.float32))
    outputs, _, lengths = seq2seq.dynamic_decode(decoder)
    assert outputs.rnn_output.shape.as_list() == [None, None, 5]
    assert lengths.shape.as_list() == [None]


def test_wrong_arguments_are_refused(graph):
    cell = GRUCell(2)
    helper = seq2seq.TrainingHelper(tf.zeros([3, 4, 2]), [4, 2, 1])
    with pytest.raises(WrongTypeError, match="cell=1: expected an RNNCell"):
        seq2seq.BasicDecoder(1, helper, None)
    with pytest.raises(WrongTypeError, match="helper=1: expected a Helper"):
        seq2seq.BasicDecoder(cell, 1, None)
    with pytest.raises(WrongTypeError, match="output_layer=3: expected a Layer"):
        seq2seq.BasicDecoder(cell, helper, None, output_layer=3)
