"""Compare the cells of `tpack.tf1` with those of the real TensorFlow 1.15, by the checkpoints that it writes.

    python -m tests.trials.tensorflow_1_rnn PYTHON_OF_1_15

Each case is built in both, with the same numbers as weights. TensorFlow 1.15 writes its outputs, gradients and a
checkpoint; tpack loads the checkpoint by the names of its own variables, and has to compute the same.
"""

# The part above `compare` also runs in Python 3.7, without tpack.
import argparse
import json
import os
import sys
import tempfile
import zlib

import numpy as np

BATCH, TIME, DEPTH = 2, 3, 4
TOLERANCE = 1e-5


def numbers(name, shape):
    return np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape).astype(np.float32)


def unrolled(make, **options):
    """Return a case that unrolls a cell by a loop, with examples of two lengths."""

    def case(tf, rnn):
        x = tf.constant(numbers("x", [BATCH, TIME, DEPTH]))
        x = tf.placeholder_with_default(x, [None, None, DEPTH])
        cell = make(tf, rnn)
        return tf.nn.dynamic_rnn(cell, x, sequence_length=tf.constant([2, 3]), dtype=tf.float32, **options)

    return case


def static(make):
    """Return a case that unrolls a cell in the graph."""

    def case(tf, rnn):
        x = tf.unstack(tf.constant(numbers("x", [TIME, BATCH, DEPTH])))
        return tf.nn.static_rnn(make(tf, rnn), x, dtype=tf.float32)

    return case


def phased(tf, rnn):
    times = np.arange(TIME, dtype=np.float32).reshape([1, TIME, 1]) + np.ones([BATCH, 1, 1], np.float32)
    x = (tf.constant(times), tf.constant(numbers("x", [BATCH, TIME, DEPTH])))
    return tf.nn.dynamic_rnn(rnn.PhasedLSTMCell(3, use_peepholes=True, ratio_on=0.5), x, dtype=tf.float32)


def embedded(tf, rnn):
    ids = tf.constant([[[1], [2], [3]], [[0], [1], [1]]])
    return tf.nn.dynamic_rnn(rnn.EmbeddingWrapper(rnn.GRUCell(3), 5, 4), ids, dtype=tf.float32)


def convolved(tf, rnn):
    x = tf.constant(numbers("x", [BATCH, TIME, 5, 5, 2]))
    cell = rnn.Conv2DLSTMCell(input_shape=[5, 5, 2], output_channels=3, kernel_shape=[3, 3])
    return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)


def fused(tf, rnn):
    x = tf.constant(numbers("x", [TIME, BATCH, DEPTH]))
    cell = rnn.LSTMBlockFusedCell(3, use_peephole=True)
    ends = tf.constant([0, 2])
    backward = rnn.TimeReversedFusedRNN(rnn.FusedRNNCellAdaptor(rnn.GRUCell(2), use_dynamic_rnn=True))
    return cell(x, dtype=tf.float32, sequence_length=ends), backward(x, dtype=tf.float32, sequence_length=ends)


def both_ways(tf, rnn):
    x = tf.constant(numbers("x", [BATCH, TIME, DEPTH]))
    cells = [[rnn.GRUCell(3), rnn.LSTMCell(2)] for _ in range(4)]
    looped = rnn.stack_bidirectional_dynamic_rnn(cells[0], cells[1], x, dtype=tf.float32)
    flat = rnn.stack_bidirectional_rnn(cells[2], cells[3], tf.unstack(x, axis=1), dtype=tf.float32)
    return looped, flat


def translated(name, *arguments, **options):
    """Return a case of a model of legacy_seq2seq that reads and writes symbols."""

    def case(tf, rnn):
        read, given = ([tf.constant([step, 2 * step]) for step in range(size)] for size in (3, 2))
        options_made = {key: make(tf) if callable(make) else make for key, make in options.items()}
        return getattr(tf.contrib.legacy_seq2seq, name)(read, given, rnn.GRUCell(3), *arguments, **options_made)

    return case


def unrolled_pairs(name):
    """Return a case of a model of legacy_seq2seq that reads vectors."""

    def case(tf, rnn):
        steps = tf.unstack(tf.constant(numbers("x", [TIME, BATCH, DEPTH])))
        return getattr(tf.contrib.legacy_seq2seq, name)(steps, steps[:2], rnn.BasicLSTMCell(3))

    return case


def attending(tf, rnn):
    steps = tf.unstack(tf.constant(numbers("x", [TIME, BATCH, DEPTH])))
    states = tf.constant(numbers("states", [BATCH, 5, 2]))
    first = rnn.LSTMStateTuple(*(tf.constant(numbers(part, [BATCH, 3])) for part in "ch"))
    options = {"output_size": 6, "num_heads": 2, "initial_state_attention": True}
    return tf.contrib.legacy_seq2seq.attention_decoder(steps, first, states, rnn.BasicLSTMCell(3), **options)


def one_to_many(tf, rnn):
    read = [tf.constant([1, 2]), tf.constant([0, 1])]
    return tf.contrib.legacy_seq2seq.one2many_rnn_seq2seq(
        read,
        {"a": read, "b": read[:1]},
        rnn.GRUCell(3),
        {"a": rnn.GRUCell(3), "b": rnn.GRUCell(3)},
        4,
        {"a": 3, "b": 5},
        2,
    )


def bucketed(tf, rnn):
    steps = [tf.constant([step, 2 * step]) for step in range(3)]
    weights = [tf.constant([1.0, 0.5]), tf.constant([0.5, 0.0]), tf.constant([1.0, 1.0])]

    def model(read, given):
        return tf.contrib.legacy_seq2seq.embedding_rnn_seq2seq(read, given, rnn.GRUCell(3), 5, 6, 2)

    buckets = [(1, 2), (3, 3)]
    whole = tf.contrib.legacy_seq2seq.model_with_buckets(steps, steps, steps, weights, buckets, model)
    with tf.variable_scope("other"):
        each = tf.contrib.legacy_seq2seq.model_with_buckets(
            steps, steps, steps, weights, buckets, model, per_example_loss=True
        )
    return whole, each


CASES = {
    "basic_rnn": unrolled(lambda tf, rnn: rnn.BasicRNNCell(3)),
    "gru": unrolled(lambda tf, rnn: rnn.GRUCell(3)),
    "basic_lstm": unrolled(lambda tf, rnn: rnn.BasicLSTMCell(3, forget_bias=0.5)),
    "lstm": unrolled(
        lambda tf, rnn: rnn.LSTMCell(3, use_peepholes=True, num_proj=2, proj_clip=0.4, cell_clip=0.7, num_unit_shards=2)
    ),
    "multi": unrolled(lambda tf, rnn: rnn.MultiRNNCell([rnn.BasicLSTMCell(3), rnn.ResidualWrapper(rnn.GRUCell(3))])),
    "multi_static": static(lambda tf, rnn: rnn.MultiRNNCell([rnn.LSTMCell(3), rnn.GRUCell(3)])),
    "lstm_block": unrolled(lambda tf, rnn: rnn.LSTMBlockCell(3, use_peephole=True, cell_clip=0.7)),
    "lstm_block_plain": static(lambda tf, rnn: rnn.LSTMBlockCell(3)),
    "gru_block": unrolled(lambda tf, rnn: rnn.GRUBlockCell(3)),
    "gru_block_2": unrolled(lambda tf, rnn: rnn.GRUBlockCellV2(3)),
    "layer_norm": unrolled(lambda tf, rnn: rnn.LayerNormBasicLSTMCell(3, norm_gain=0.5, norm_shift=0.1)),
    "layer_norm_off": static(lambda tf, rnn: rnn.LayerNormBasicLSTMCell(3, layer_norm=False)),
    "coupled": unrolled(
        lambda tf, rnn: rnn.CoupledInputForgetGateLSTMCell(3, use_peepholes=True, num_proj=2, proj_clip=0.3)
    ),
    "coupled_norm": unrolled(
        lambda tf, rnn: rnn.CoupledInputForgetGateLSTMCell(3, True, layer_norm=True, num_unit_shards=2)
    ),
    "coupled_flat": unrolled(lambda tf, rnn: rnn.CoupledInputForgetGateLSTMCell(3, num_proj=2, state_is_tuple=False)),
    "ugrnn": unrolled(lambda tf, rnn: rnn.UGRNNCell(3)),
    "intersection": unrolled(lambda tf, rnn: rnn.IntersectionRNNCell(3, num_in_proj=3)),
    "nas": unrolled(lambda tf, rnn: rnn.NASCell(3, num_proj=2, use_bias=True)),
    "glstm": unrolled(lambda tf, rnn: rnn.GLSTMCell(4, num_proj=2, number_of_groups=2, activation=tf.nn.relu)),
    "attention": unrolled(lambda tf, rnn: rnn.AttentionCellWrapper(rnn.BasicLSTMCell(3), 2, 5, 6)),
    "attention_flat": unrolled(lambda tf, rnn: rnn.AttentionCellWrapper(rnn.GRUCell(3), 2, state_is_tuple=False)),
    "input_projection": unrolled(lambda tf, rnn: rnn.InputProjectionWrapper(rnn.GRUCell(3), 2, tf.nn.relu)),
    "output_projection": unrolled(lambda tf, rnn: rnn.OutputProjectionWrapper(rnn.GRUCell(3), 2)),
    "highway": unrolled(lambda tf, rnn: rnn.HighwayWrapper(rnn.GRUCell(DEPTH), carry_bias_init=0.5)),
    "highway_both": unrolled(lambda tf, rnn: rnn.HighwayWrapper(rnn.GRUCell(DEPTH), False)),
    "ind_rnn": unrolled(lambda tf, rnn: rnn.IndRNNCell(3)),
    "indy_gru": unrolled(lambda tf, rnn: rnn.IndyGRUCell(3)),
    "indy_lstm": unrolled(lambda tf, rnn: rnn.IndyLSTMCell(3)),
    "sru": unrolled(lambda tf, rnn: rnn.SRUCell(3)),
    "phased": phased,
    "embedding": embedded,
    "convolution": convolved,
    "fused": fused,
    "both_ways": both_ways,
    "legacy_basic": unrolled_pairs("basic_rnn_seq2seq"),
    "legacy_tied": unrolled_pairs("tied_rnn_seq2seq"),
    "legacy_embedding": translated("embedding_rnn_seq2seq", 5, 6, 2),
    "legacy_fed": translated("embedding_rnn_seq2seq", 5, 6, 2, feed_previous=True),
    "legacy_fed_by_tensor": translated("embedding_rnn_seq2seq", 5, 6, 2, feed_previous=lambda tf: tf.constant(True)),
    "legacy_projected": translated(
        "embedding_rnn_seq2seq",
        5,
        6,
        2,
        output_projection=lambda tf: (tf.constant(numbers("w", [3, 6])), tf.constant(numbers("b", [6]))),
        feed_previous=True,
    ),
    "legacy_embedding_tied": translated("embedding_tied_rnn_seq2seq", 5, 2, feed_previous=True),
    "legacy_tied_by_tensor": translated(
        "embedding_tied_rnn_seq2seq", 5, 2, num_decoder_symbols=5, feed_previous=lambda tf: tf.constant(False)
    ),
    "legacy_attention": translated("embedding_attention_seq2seq", 5, 6, 3, num_heads=2, feed_previous=True),
    "legacy_attention_by_tensor": translated(
        "embedding_attention_seq2seq",
        5,
        6,
        2,
        feed_previous=lambda tf: tf.constant(False),
        initial_state_attention=True,
    ),
    "legacy_attending": attending,
    "legacy_one_to_many": one_to_many,
    "legacy_buckets": bucketed,
}


def run(tf, rnn, case, restore_from=None, save_to=None):
    """Build a case, and return its variables, outputs and gradients."""
    nest = tf.nest
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = nest.flatten(case(tf, rnn))
        variables = tf.global_variables()
        total = tf.add_n([tf.reduce_sum(tf.square(output - 0.1)) for output in outputs])
        gradients = [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(  # noqa: B905
                tf.gradients(total, tf.trainable_variables()), tf.trainable_variables()
            )
        ]
        saver = tf.train.Saver(variables)
        if restore_from:
            saver.restore(session, restore_from)
        else:
            for variable in variables:
                session.run(variable.initializer)
                value = numbers(variable.op.name, variable.shape.as_list())
                is_positive = any(word in variable.op.name for word in ("period", "ratio"))
                variable.load(np.abs(value) + 0.5 if is_positive else value, session)
            saver.save(session, save_to)
        described = [[v.op.name, v.shape.as_list(), v in tf.trainable_variables()] for v in variables]
        return described, session.run([outputs, gradients])


def write(folder):
    """Run all cases with TensorFlow 1.15 and write what came of it."""
    import tensorflow as tf  # noqa: PLC0415
    import tensorflow.contrib.rnn as rnn  # noqa: PLC0415

    for name, case in CASES.items():
        described, (outputs, gradients) = run(tf, rnn, case, save_to=os.path.join(folder, name, "model"))
        with open(os.path.join(folder, name, "variables.json"), "w") as file:
            json.dump(described, file)
        arrays = {"output%d" % index: value for index, value in enumerate(outputs)}  # noqa: UP031
        arrays.update({"gradient%d" % index: value for index, value in enumerate(gradients)})  # noqa: UP031
        np.savez(os.path.join(folder, name, "values.npz"), **arrays)


def compare(folder):
    """Run all cases with tpack and compare. Return how many differ."""
    import tpack.tf1 as tf  # noqa: PLC0415

    num_different = 0
    for name, case in CASES.items():
        described, (outputs, gradients) = run(
            tf, tf.contrib.rnn, case, restore_from=os.path.join(folder, name, "model")
        )
        with open(os.path.join(folder, name, "variables.json"), encoding="utf-8") as file:
            same_variables = json.load(file) == described
        with np.load(os.path.join(folder, name, "values.npz")) as wanted:
            count = sum(key.startswith("output") for key in wanted.files)
            errors = [_error(value, wanted[f"output{index}"]) for index, value in enumerate(outputs)]
            grad_errors = [_error(value, wanted[f"gradient{index}"]) for index, value in enumerate(gradients)]
            same_number = len(outputs) == count and len(gradients) == len(wanted.files) - count
        is_same = same_variables and same_number and max(errors) < TOLERANCE and max(grad_errors) < TOLERANCE
        num_different += not is_same
        print(
            f"{name:20s} {'same' if is_same else 'DIFFERENT':10s} {len(described):3d} variables, outputs within "
            f"{max(errors):.1e}, gradients within {max(grad_errors):.1e}"
        )
        if not same_variables:
            print("    ", described)
    print(f"{len(CASES) - num_different} of {len(CASES)} cases are those of TensorFlow 1.15")
    return num_different


def _error(value, wanted):
    return float(np.max(np.abs(value - wanted)) / max(1.0, np.max(np.abs(wanted)))) if value.size else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="a Python that has TensorFlow 1.15")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (the other Python does not have it)

    with tempfile.TemporaryDirectory() as folder:
        command = [options.python, "-W", "ignore", os.path.abspath(__file__), options.python, "--write", folder]
        tensorflow_1.run(command)
        sys.exit(compare(folder) > 0)


if __name__ == "__main__":
    main()
