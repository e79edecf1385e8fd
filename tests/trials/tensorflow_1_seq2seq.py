"""Run ``seq2seq``, ``crf``, ``opt`` and ``HParams`` in TensorFlow 1.15 and here, and compare everything.

    python -m tests.trials.tensorflow_1_seq2seq PYTHON_OF_1_15

The same functions run in both, this file as a script in the other one. 1.15 goes first, and saves a checkpoint of the
weights that it drew; here it is loaded by name, so a name or shape that differs is an error. What is compared: the
names and shapes of all variables, the outputs, lengths, states and gradients, and the steps of the optimizers.
"""

import os
import sys
import tempfile
import warnings

import numpy as np

IS_ORIGINAL = __name__ == "__main__" and "--original" in sys.argv
# Where it is not deterministic in the last bit.
TOLERANCE = 2e-5


def load():
    """Return TensorFlow 1.15 itself, or tpack.tf1 in its place."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore")
    if IS_ORIGINAL:
        import tensorflow as tf  # noqa: PLC0415 (the other program's)

        return tf
    import tpack.tf1 as tf  # noqa: PLC0415 (after the environment is set)

    return tf


tf = load()
seq2seq, crf, opt = tf.contrib.seq2seq, tf.contrib.crf, tf.contrib.opt
RNG = np.random.RandomState
MEMORY = RNG(1).randn(3, 5, 4).astype("float32")
INPUTS = RNG(2).randn(3, 6, 4).astype("float32")
TABLE = RNG(3).randn(7, 4).astype("float32")
MEMORY_LENGTHS, LENGTHS = [5, 3, 2], [6, 4, 1]
ONE_BY_ONE = {"parallel_iterations": 1} if IS_ORIGINAL else {}


def tensors_of(outputs, state, lengths):
    """Return all tensors of what ``dynamic_decode`` returned, and gradients of the outputs, by name."""
    parts = {"lengths": lengths}
    for index, part in enumerate(tf.contrib.framework.nest.flatten((outputs, state))):
        parts[f"part{index}"] = part.stack() if isinstance(part, tf.TensorArray) else part
    return parts


def with_gradients(parts, loss):
    """Add the gradient of each variable."""
    variables = tf.trainable_variables()
    for variable, gradient in zip(variables, tf.gradients(loss, variables)):  # noqa: B905 (Python 3.7)
        if gradient is not None:
            parts["gradient " + variable.op.name] = tf.convert_to_tensor(gradient)
    return parts


def helper_of(kind):
    if kind == "embedding":
        return seq2seq.ScheduledEmbeddingTrainingHelper(INPUTS, LENGTHS, tf.constant(TABLE), 0.5, False, 11, 12)
    if kind == "output":
        return seq2seq.ScheduledOutputTrainingHelper(
            INPUTS, LENGTHS, 0.5, seed=13, next_inputs_fn=lambda x: x[:, :4], auxiliary_inputs=INPUTS[:, :, :2]
        )
    if kind == "greedy":
        return seq2seq.GreedyEmbeddingHelper(tf.constant(TABLE), [1, 2, 3], 0)
    if kind == "sample":
        return seq2seq.SampleEmbeddingHelper(tf.constant(TABLE), [1, 2, 3], 0, softmax_temperature=0.7, seed=14)
    return seq2seq.TrainingHelper(INPUTS, LENGTHS)


def mechanism_of(kind):
    kinds = {
        "bahdanau": (seq2seq.BahdanauAttention, {}),
        "normed": (seq2seq.BahdanauAttention, {"normalize": True}),
        "luong": (seq2seq.LuongAttention, {}),
        "scaled": (seq2seq.LuongAttention, {"scale": True}),
        "hardmax": (seq2seq.LuongAttention, {"probability_fn": seq2seq.hardmax}),
        "monotonic": (seq2seq.BahdanauMonotonicAttention, {"normalize": True, "score_bias_init": 0.3}),
        "recursive": (seq2seq.LuongMonotonicAttention, {"scale": True, "mode": "recursive"}),
        "hard": (seq2seq.LuongMonotonicAttention, {"mode": "hard"}),
    }
    mechanism, options = kinds[kind]
    return lambda memory, lengths: mechanism(6, memory, lengths, **options)


def decode(attention="bahdanau", helper="training", cell="gru", **options):
    """Decode by an attentive cell; options are those of ``dynamic_decode`` and, in capitals, of the wrapper."""
    cells = {"gru": tf.nn.rnn_cell.GRUCell, "lstm": tf.nn.rnn_cell.LSTMCell}
    several = attention.split("+")
    mechanisms = [mechanism_of(kind)(tf.constant(MEMORY), MEMORY_LENGTHS) for kind in several]
    sizes = [3, 4][: len(several)]
    inner = cells[cell](6)
    wrapper = seq2seq.AttentionWrapper(
        inner,
        mechanisms if len(several) > 1 else mechanisms[0],
        attention_layer_size=sizes if len(several) > 1 else 5,
        **{name.lower(): value for name, value in options.items() if name.isupper()},
    )
    decoder = seq2seq.BasicDecoder(
        wrapper, helper_of(helper), wrapper.zero_state(3, tf.float32), output_layer=tf.layers.Dense(7)
    )
    plain = {name: value for name, value in options.items() if name.islower()}
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, **plain)
    return with_gradients(tensors_of(outputs, state, lengths), tf.reduce_sum(tf.square(outputs.rnn_output)))


def beams(length=0.0, attention="bahdanau", width=3, **options):
    """Search by an attentive cell."""
    tiled, lengths = seq2seq.tile_batch((tf.constant(MEMORY), tf.constant(MEMORY_LENGTHS)), width)
    mechanism = mechanism_of(attention)(tiled, lengths)
    wrapper = seq2seq.AttentionWrapper(tf.nn.rnn_cell.LSTMCell(6), mechanism, attention_layer_size=5)
    decoder = seq2seq.BeamSearchDecoder(
        wrapper,
        tf.constant(TABLE),
        [1, 2, 3],
        0,
        wrapper.zero_state(3 * width, tf.float32),
        width,
        tf.layers.Dense(7, bias_initializer=tf.constant_initializer([0.4] + [0.0] * 6)),
        length_penalty_weight=length,
        **options,
    )
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=8)
    return tensors_of(outputs, state, lengths)


def tags():
    """All of the conditional random fields."""
    x = tf.get_variable("x", initializer=RNG(5).randn(4, 5, 3).astype("float32"))
    lengths = tf.constant([5, 3, 1, 2])
    indices = tf.constant(RNG(6).randint(0, 3, (4, 5)))
    likelihood, transitions = crf.crf_log_likelihood(x, indices, lengths)
    best, score = crf.crf_decode(x, transitions, lengths)
    bitmap = tf.constant(RNG(7).rand(4, 5, 3) > 0.3)
    parts = {
        "likelihood": likelihood,
        "best": best,
        "score": score,
        "unary": crf.crf_unary_score(indices, lengths, x),
        "binary": crf.crf_binary_score(indices, lengths, transitions),
        "multi": tf.where(
            tf.is_finite(crf.crf_multitag_sequence_score(x, bitmap, lengths, transitions)),
            crf.crf_multitag_sequence_score(x, bitmap, lengths, transitions),
            tf.zeros([4]),
        ),
    }
    return with_gradients(parts, tf.reduce_sum(likelihood))


def losses():
    """The loss of sequences in all its ways."""
    logits = tf.constant(RNG(8).randn(2, 3, 4).astype("float32"))
    targets, weights = tf.constant([[0, 1, 2], [1, 2, 3]]), tf.constant([[1.0, 1.0, 0.5], [1.0, 0.0, 0.0]])
    parts = {}
    for bits in range(16):
        flags = [bool(bits >> shift & 1) for shift in range(4)]
        if not (flags[0] and flags[2] or flags[1] and flags[3]):
            parts[f"loss{bits}"] = seq2seq.sequence_loss(logits, targets, weights, *flags)
    ids, parents = RNG(9).randint(0, 5, (6, 4, 3)), RNG(10).randint(0, 3, (6, 4, 3))
    tree = [tf.constant(array.astype("int32")) for array in (ids, parents)]
    parts["tree"] = seq2seq.gather_tree(*(tree + [tf.constant([6, 4, 1, 0]), 4]))
    return parts


def steps(make, sparse):
    """Four steps of an optimizer."""
    w = tf.get_variable("w", initializer=np.arange(1, 7, dtype="float32").reshape(3, 2) / 4 + 0.03)
    b = tf.get_variable("b", initializer=np.array([0.5, -0.5], "float32"))
    count = tf.train.get_or_create_global_step()
    rows = tf.square(tf.gather(w, [0, 2, 0])) if sparse else tf.square(w) * [[1.0, 2.0]]
    loss = tf.reduce_sum(rows) + tf.reduce_sum(tf.sin(b))
    gradients = make(count).compute_gradients(loss)
    # In 1.15 nothing makes decoupled decay wait for the gradients, and what is read of a variable is the variable
    # itself and no copy: the gradients would be of weights that have decayed already, or not, as chance has it.
    with tf.control_dependencies([g.values if sparse and v is w else g for g, v in gradients]):
        return {"w": w, "b": b, "train_op": make(count).apply_gradients(gradients, global_step=count)}


def _decay(step):
    return 1 - tf.cast(step, tf.float32) / 10


OPTIMIZERS = {
    "adamax": lambda step: opt.AdaMaxOptimizer(0.1),
    "nadam": lambda step: opt.NadamOptimizer(0.1),
    "lazy": lambda step: opt.LazyAdamOptimizer(0.1),
    "adamgs": lambda step: opt.AdamGSOptimizer(step, 0.1),
    "lazygs": lambda step: opt.LazyAdamGSOptimizer(step, 0.1),
    "addsign": lambda step: opt.AddSignOptimizer(0.1, alpha=1.5, sign_decay_fn=_decay),
    "powersign": lambda step: opt.PowerSignOptimizer(0.1, sign_decay_fn=_decay),
    "lars": lambda step: opt.LARSOptimizer(0.1, eeta=0.1, epsilon=0.1, skip_list=["b"], use_nesterov=True),
    "regadagrad": lambda step: opt.RegAdagradOptimizer(0.1),
    "average": lambda step: opt.MovingAverageOptimizer(tf.train.AdamOptimizer(0.1), 0.5, num_updates=step),
    "clipping": lambda step: opt.VariableClippingOptimizer(
        tf.train.GradientDescentOptimizer(0.1), {v: [1] for v in tf.global_variables() if v.op.name == "w"}, 0.7
    ),
    "adamw": lambda step: opt.AdamWOptimizer(0.01, 0.1),
    "momentumw": lambda step: opt.MomentumWOptimizer(0.01, 0.1, 0.9),
}

CASES = {
    "bahdanau": decode,
    "impute": lambda: decode(impute_finished=True, cell="lstm"),
    "time": lambda: decode(output_time_major=True, maximum_iterations=4),
    "normed": lambda: decode("normed", OUTPUT_ATTENTION=False),
    "luong": lambda: decode("luong", impute_finished=True),
    "scaled": lambda: decode("scaled", ALIGNMENT_HISTORY=True),
    "hardmax": lambda: decode("hardmax"),
    "monotonic": lambda: decode("monotonic"),
    "recursive": lambda: decode("recursive", impute_finished=True),
    "hard": lambda: decode("hard"),
    "several": lambda: decode("bahdanau+scaled", cell="lstm", ALIGNMENT_HISTORY=True),
    "greedy": lambda: decode(helper="greedy", maximum_iterations=5),
    "sample": lambda: decode(helper="sample", maximum_iterations=5),
    # In 1.15 steps that run side by side draw in any order.
    "scheduled": lambda: decode(helper="embedding", **ONE_BY_ONE),
    "scheduled_output": lambda: decode(helper="output", OUTPUT_ATTENTION=False, **ONE_BY_ONE),
    "beams": beams,
    "penalty": lambda: beams(0.8, "scaled"),
    "greedy_beam": lambda: beams(width=1),
    "wide": lambda: beams(1.2, width=6),
    "tags": tags,
    "losses": losses,
}
CASES.update(
    {
        f"{name}_{kind}": lambda make=make, kind=kind: steps(make, kind == "sparse")
        for name, make in OPTIMIZERS.items()
        for kind in ("dense", "sparse")
    }
)


def run(name, folder):
    """Run one case: 1.15 writes its checkpoint and values, and tpack loads the first and returns its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        parts = CASES[name]()
        train_op = parts.pop("train_op", None)
        path = os.path.join(folder, name)
        saver = tf.train.Saver() if tf.global_variables() else None
        if IS_ORIGINAL:
            session.run(tf.global_variables_initializer())
        if saver is not None and IS_ORIGINAL:
            saver.save(session, path)
        elif saver is not None:
            saver.restore(session, path)
        for _ in range(4 if train_op is not None else 0):
            session.run(train_op)
        values = session.run(parts)
        for variable in tf.global_variables():
            values["variable " + variable.op.name] = np.array(session.run(variable) if train_op is not None else 0.0)
    return values


def compare(name, folder):
    """Return how far the values of a case are from those of 1.15, and what differs besides."""
    ours = run(name, folder)
    with np.load(os.path.join(folder, name + ".npz"), allow_pickle=False) as original:
        theirs = {key: original[key] for key in original.files}
    # A gradient that does not pass a loop is none in 1.15; the loops of TensorFlow 2 give zeros (`hardmax`, `hard`).
    single = [key for key in sorted(set(ours) ^ set(theirs)) if np.any({**ours, **theirs}[key])]
    problems = [f"only in one: {key}" for key in single]
    worst = 0.0
    for key in sorted(set(ours) & set(theirs)):
        mine, other = np.asarray(ours[key]), theirs[key]
        if mine.shape != other.shape or mine.dtype != other.dtype:
            problems.append(f"{key}: {mine.shape} {mine.dtype}, not {other.shape} {other.dtype}")
        elif mine.dtype.kind == "f":
            same = mine == other
            gap = np.where(same, 0.0, np.abs(mine - other) / (1.0 + np.abs(other)))
            worst = max(worst, float(np.max(gap))) if gap.size else worst
        elif not np.array_equal(mine, other):
            problems.append(f"{key} differs: {mine.tolist()}, not {other.tolist()}")
    return worst, problems


def main():
    """Run 1.15 on all cases, then compare."""
    if IS_ORIGINAL:
        folder = sys.argv[sys.argv.index("--original") + 1]
        for name in CASES:
            np.savez(os.path.join(folder, name + ".npz"), **run(name, folder))
        return 0
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (the other Python does not have it)

    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "-W", "ignore", __file__, "--original", folder]
        tensorflow_1.run(command)
        for name in CASES:
            try:
                worst, problems = compare(name, folder)
            except Exception as error:  # noqa: BLE001 (one case that fails is reported, and the others run)
                worst, problems = np.inf, [f"{type(error).__name__}: {str(error)[:300]}"]
            is_good = worst < TOLERANCE and not problems
            failed += not is_good
            print(f"{name:20} {'equal' if is_good else 'WRONG':6} {worst:.1e} {'; '.join(problems)[:400]}", flush=True)
    print(f"{len(CASES) - failed} of {len(CASES)} cases are equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
