"""A character RNN with a cell of its own, as the field's char-rnn.py: TensorFlow's cells went away with Keras 3."""
# ruff: noqa: F403, F405

import argparse

import numpy as np

from tpack import *
from tpack.compat import tfv1 as tf
from tpack.tfutils import optimizer, summary
from tpack.tfutils.gradproc import CheckGradient, FilterNoneGrad, GlobalNormClip, MapGradient
from tpack.tfutils.scope_utils import auto_reuse_variable_scope, cached_name_scope
from tpack.utils.argtools import memoized

TEXT = "she sells sea shells by the sea shore. the shells she sells are surely seashells. " * 20
BATCH, SEQ_LEN, UNITS, LAYERS = 32, 12, 48, 2


@memoized
def vocabulary():
    chars = sorted(set(TEXT))
    return chars, {char: number for number, char in enumerate(chars)}


class CharRNNData(RNGDataFlow):
    """Yields pieces of the text, and the same one character later."""

    def __init__(self, size):
        lut = vocabulary()[1]
        self.text = np.array([lut[char] for char in TEXT], "int32")
        self._size = size

    def __len__(self):
        return self._size

    def __iter__(self):
        for start in self.rng.randint(0, len(self.text) - SEQ_LEN - 1, size=self._size):
            piece = self.text[start : start + SEQ_LEN + 1]
            yield [piece[:-1], piece[1:]]


class LSTMCell:
    """One step of an LSTM; every call uses the same weights."""

    def __init__(self, name, num_units):
        self.name, self.num_units = name, num_units

    def __call__(self, x, state):
        with tf.variable_scope(self.name):
            return self._step(x, *state)

    @auto_reuse_variable_scope
    def _step(self, x, c, h):
        gates = FullyConnected("gates", tf.concat([x, h], axis=1), 4 * self.num_units)
        i, j, f, o = tf.split(gates, 4, axis=1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return c, tf.tanh(c) * tf.sigmoid(o)


class Model(ModelDesc):
    def inputs(self):
        return [
            tf.TensorSpec((None, None), tf.int32, "input"),
            tf.TensorSpec((None, None), tf.int32, "nextinput"),
        ]

    def initial_state(self, input):
        """States that begin as zeros, and can be fed to go on where an earlier call stopped."""
        zeros = tf.zeros([tf.shape(input)[0], UNITS])
        return [
            tuple(tf.placeholder_with_default(zeros, [None, UNITS], name=f"{part}{layer}") for part in "ch")
            for layer in range(LAYERS)
        ]

    def build_graph(self, input, nextinput):
        num_chars = len(vocabulary()[0])
        cells = [LSTMCell(f"cell{layer}", UNITS) for layer in range(LAYERS)]
        states = self.initial_state(input)
        embedding = tf.get_variable("embedding", [num_chars, UNITS])
        seq_len = SEQ_LEN if self.training else 1
        feature = tf.nn.embedding_lookup(embedding, tf.reshape(input, [-1, seq_len]))

        outputs = []
        for x in tf.unstack(feature, num=seq_len, axis=1):
            for number, cell in enumerate(cells):
                states[number] = cell(x, states[number])
                x = states[number][1]
            outputs.append(x)
        for layer, (c, h) in enumerate(states):
            tf.identity(c, name=f"last_c{layer}")
            tf.identity(h, name=f"last_h{layer}")

        logits = FullyConnected("fc", tf.reshape(tf.stack(outputs, axis=1), [-1, UNITS]), num_chars)
        tf.nn.softmax(logits, name="prob")
        xent = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.reshape(nextinput, [-1]))
        with cached_name_scope("losses", top_level=False):
            cost = tf.reduce_mean(xent, name="cost")
        summary.add_param_summary((".*/W", ["rms"]))
        summary.add_moving_summary(cost, tf.exp(cost, name="perplexity"))
        return cost

    def optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=1e-2, trainable=False)
        opt = tf.train.AdamOptimizer(lr)
        return optimizer.apply_grad_processors(
            opt,
            [
                FilterNoneGrad(),
                CheckGradient(),
                MapGradient(lambda grad: tf.clip_by_value(grad, -1.0, 1.0), regex="cell.*"),
                GlobalNormClip(5),
            ],
        )


def sample(path, start, length):
    """Go on with the text after ``start``, one character at a time, and feed the states back."""
    names = [f"{part}{layer}" for layer in range(LAYERS) for part in "ch"]
    pred = OfflinePredictor(
        PredictConfig(
            model=Model(),
            session_init=SmartInit(path),
            input_names=["input", *names],
            output_names=["prob", *(f"last_{name}" for name in names)],
        )
    )
    chars, lut = vocabulary()
    states = [np.zeros([1, UNITS], "float32")] * len(names)
    text = start[:1]
    while len(text) < len(start) + length:
        prob, *states = pred([[lut[text[-1]]]], *states)
        text += start[len(text)] if len(text) < len(start) else chars[prob[0].argmax()]
    return text


def main(argv=None):
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(title="command", dest="command", required=True)
    parser_sample = subparsers.add_parser("sample", help="sample a trained model")
    parser_sample.add_argument("-n", "--num", type=int, default=100, help="length of text to generate")
    parser_sample.add_argument("-s", "--start", default="the ", help="initial text sequence")
    parser_sample.add_argument("--load", required=True)
    parser_train = subparsers.add_parser("train", help="train")
    parser_train.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args(argv)
    if args.command == "sample":
        return sample(args.load, args.start, args.num)

    logger.auto_set_dir("d")
    ds = BatchData(CharRNNData(BATCH * 40), BATCH)
    config = TrainConfig(
        model=Model(),
        data=QueueInput(ds),
        callbacks=[
            ModelSaver(),
            ScheduledHyperParamSetter("learning_rate", [(0, 1e-2), (4, 2e-3)], interp="linear"),
            MinSaver("losses/cost"),
            PeriodicCallback(TensorPrinter(["losses/cost"]), every_k_epochs=2),
        ],
        max_epoch=args.epochs,
    )
    launch_train_with_config(config, SimpleTrainer())
    return None


if __name__ == "__main__":
    main()
