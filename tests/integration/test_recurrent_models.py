"""Language models and a tagger, as scripts of TensorFlow 1 write them, in a ModelDesc: two towers train as one does.

One tower gets in a batch what two get in one each, so that their weights must be the same after each number of steps.
"""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.callbacks.base import Callback
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.optimizer import apply_grad_processors
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

WORDS, TAGS, SIZE, LENGTH, ROWS, STEPS = 11, 3, 4, 5, 2, 3


class Fixed(tf.keras.initializers.Initializer):
    """Draws the same weights for each variable of a shape."""

    def __call__(self, shape, dtype=tf.float32, **kwargs):
        return tf.constant(np.random.default_rng(len(shape)).normal(size=shape, scale=0.3), dtype)


class Sequences(ModelDesc):
    """Words and what is wanted for each, and the length of each row."""

    clip = False

    def inputs(self):
        shape = [None, LENGTH]
        kinds = (("words", shape), ("wanted", shape), ("lengths", [None]))
        return [tf.TensorSpec(each, tf.int32, name) for name, each in kinds]

    def build_graph(self, words, wanted, lengths):
        with tf.variable_scope("model", initializer=Fixed()):
            embedding = tf.get_variable("embedding", [WORDS, SIZE])
            return self.cost(tf.nn.embedding_lookup(embedding, words), wanted, lengths)

    def optimizer(self):
        optimizer = tf.train.AdamOptimizer(0.01)
        return apply_grad_processors(optimizer, [GlobalNormClip(0.5)]) if self.clip else optimizer


class PennTreebank(Sequences):
    """Two layers of LSTM, unrolled in time, with the gradients' norm clipped."""

    clip = True

    def cost(self, inputs, wanted, lengths):
        cells = [tf.nn.rnn_cell.DropoutWrapper(tf.contrib.rnn.BasicLSTMCell(SIZE)) for _ in range(2)]
        cell = tf.contrib.rnn.MultiRNNCell(cells, state_is_tuple=True)
        state = cell.zero_state(tf.shape(inputs)[0], tf.float32)
        outputs = []
        with tf.variable_scope("RNN"):
            for time in range(LENGTH):
                if time > 0:
                    tf.get_variable_scope().reuse_variables()
                output, state = cell(inputs[:, time, :], state)
                outputs.append(output)
        logits = tf.layers.dense(tf.stack(outputs, 1), WORDS)
        rows = tf.ones(tf.shape(wanted), tf.float32)
        losses = tf.contrib.seq2seq.sequence_loss(logits, wanted, rows, False, True)
        return tf.reduce_sum(losses, name="cost")


class Characters(Sequences):
    """GRU by the functions that were called legacy already in TensorFlow 1."""

    def cost(self, inputs, wanted, lengths):
        cell = tf.contrib.rnn.GRUCell(SIZE)
        state = cell.zero_state(tf.shape(inputs)[0], tf.float32)
        split = [tf.squeeze(each, [1]) for each in tf.split(inputs, LENGTH, 1)]
        outputs, _ = tf.contrib.legacy_seq2seq.rnn_decoder(split, state, cell, scope="rnnlm")
        logits = tf.contrib.layers.fully_connected(tf.concat(outputs, 0), WORDS, None, weights_initializer=Fixed())
        targets = tf.reshape(tf.transpose(wanted), [-1])
        by_example = tf.contrib.legacy_seq2seq.sequence_loss_by_example(
            [logits], [targets], [tf.ones_like(targets, tf.float32)]
        )
        return tf.reduce_mean(by_example, name="cost")


class Tagger(Sequences):
    """LSTM in both directions below a conditional random field."""

    def cost(self, inputs, wanted, lengths):
        cells = tf.nn.rnn_cell.LSTMCell(SIZE), tf.nn.rnn_cell.LSTMCell(SIZE)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(*cells, inputs, sequence_length=lengths, dtype=tf.float32)
        logits = tf.layers.dense(tf.concat(outputs, axis=-1), TAGS)
        likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, wanted % TAGS, lengths)
        return tf.reduce_mean(-likelihood, name="cost")


class Watch(Callback):
    """Keeps the trained weights and the costs of all steps."""

    def __init__(self):
        self.costs = []

    def _setup_graph(self):
        towers = self.trainer.towers.training()
        self.variables = towers[0].get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
        self.tensors = [tower["model/cost"] for tower in towers]

    def _before_run(self, ctx):
        return self.tensors

    def _after_run(self, ctx, values):
        self.costs.append(np.mean(values.results))

    def _after_train(self):
        self.weights = self.trainer.sess.run({each.op.name: each for each in self.variables})


def points(rows):
    rng = np.random.default_rng(0)
    words = rng.integers(0, WORDS, (2 * ROWS * STEPS, LENGTH)).astype(np.int32)
    wanted, lengths = np.roll(words, -1, 1), 1 + np.arange(len(words), dtype=np.int32) % LENGTH
    starts = range(0, len(words), rows)
    return [[array[start : start + rows] for array in (words, wanted, lengths)] for start in starts]


def train(model, trainer, rows):
    watch = Watch()
    with tf.Graph().as_default():
        flow = DataFromList(points(rows), shuffle=False)
        options = {"callbacks": [watch], "extra_callbacks": [], "monitors": [], "max_epoch": 4}
        launch_train_with_config(TrainConfig(model=model, dataflow=flow, steps_per_epoch=STEPS, **options), trainer)
    return watch


@pytest.mark.parametrize("make", [PennTreebank, Characters, Tagger])
def test_two_towers_train_as_one(make):
    two = train(make(), SyncMultiGPUTrainerReplicated(2), ROWS)
    one = train(make(), SimpleTrainer(), 2 * ROWS)
    assert sorted(two.weights) == sorted(one.weights)
    for name, weight in one.weights.items():
        np.testing.assert_allclose(two.weights[name], weight, rtol=1e-4, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(two.costs, one.costs, rtol=1e-4)
    assert np.mean(one.costs[-STEPS:]) < np.mean(one.costs[:STEPS])
