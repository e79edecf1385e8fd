"""Build the layers of ``tf.contrib`` and slim in TensorFlow 1.15 and in `tpack.tf1`, and compare what came of it.

    python -m tests.trials.tensorflow_1_contrib_layers PYTHON_OF_1_15

The file runs in both, so it has no syntax newer than 3.7. TensorFlow 1.15's Python starts it with ``--write FOLDER``
and writes for each case names, shapes and collections, and outputs, gradients, losses and what updates changed, with
weights that depend on the variables' names only. Its checkpoints are what the same case here begins from.

What is known to differ: ``bn_debias_unfused`` in MODEL_VARIABLES, where 1.15 had the helpers of the moving mean in this
one case only.
"""

import argparse
import os
import pickle
import sys
import tempfile
import zlib

import numpy as np

IS_ORIGINAL = sys.version_info < (3, 8)
if IS_ORIGINAL:
    import tensorflow as tf
    from tensorflow import contrib
    from tensorflow.contrib import slim
else:
    import tensorflow.compat.v1 as tf

    from tpack.tf1 import contrib
    from tpack.tf1.contrib import slim

layers = contrib.layers
framework = contrib.framework
CASES = {}


def case(function):
    """Add a function that takes an image, features and a sequence, and returns a list of outputs."""
    CASES[function.__name__] = function
    return function


def cases(**functions):
    """Add several."""
    CASES.update(functions)


def _input(name):
    return lambda: tf.get_default_graph().get_tensor_by_name(name + ":0")


image, feats, seq = _input("image"), _input("features"), _input("sequence")
first, flag = _input("channels_first"), _input("flag")
BN = {"is_training": True, "decay": 0.9}

cases(
    fc=lambda: [layers.fully_connected(feats(), 4), layers.fully_connected(feats(), 3)],
    fc_3d=lambda: [layers.fully_connected(seq(), 4, activation_fn=None)],
    fc_scope=lambda: [
        layers.fully_connected(feats(), 4, scope="a"),
        layers.fully_connected(feats(), 4, scope="a", reuse=True),
    ],
    fc_reg=lambda: [
        layers.fully_connected(
            feats(),
            4,
            weights_regularizer=layers.l2_regularizer(0.1),
            biases_regularizer=layers.l1_regularizer(0.2),
            variables_collections={"weights": ["W"], "biases": ["B"]},
            outputs_collections="outs",
            trainable=False,
        )
    ],
    fc_bn=lambda: [layers.fully_connected(feats(), 4, normalizer_fn=layers.batch_norm, normalizer_params=BN)],
    fc_bn_scale=lambda: [
        layers.fully_connected(
            feats(), 4, normalizer_fn=layers.batch_norm, normalizer_params=dict(BN, scale=True, fused=False)
        )
    ],
    fc_no_bias=lambda: [layers.fully_connected(feats(), 4, biases_initializer=None)],
    linear=lambda: [
        layers.linear(feats(), 4),
        layers.relu(feats(), 4),
        layers.relu6(feats(), 3),
        layers.elu(feats(), 2),
    ],
    legacy=lambda: [
        layers.legacy_fully_connected(feats(), 4),
        layers.legacy_relu(feats(), 4),
        layers.legacy_linear(feats(), 4, name="x"),
    ],
    conv=lambda: [
        layers.conv2d(image(), 4, 3),
        layers.conv2d(image(), 4, [3, 2], stride=2, padding="VALID"),
        layers.conv2d(image(), 2, 3, rate=2),
    ],
    conv_first=lambda: [
        layers.conv2d(
            image(),
            4,
            3,
            weights_regularizer=layers.l2_regularizer(0.1),
            outputs_collections="outs",
            normalizer_fn=layers.batch_norm,
            normalizer_params=BN,
        )
    ],
    conv13=lambda: [
        layers.conv1d(seq(), 4, 3),
        layers.conv1d(seq(), 4, 3, stride=2, padding="VALID"),
        layers.conv3d(image()[..., None], 2, 2),
        layers.convolution(seq(), 3, 2, rate=2),
    ],
    conv_t=lambda: [
        layers.conv2d_transpose(image(), 4, 3, stride=2),
        layers.conv2d_transpose(image(), 4, [2, 3], stride=[1, 2], padding="VALID", biases_initializer=None),
    ],
    conv3_t=lambda: [layers.conv3d_transpose(image()[..., None], 2, 2, stride=2)],
    in_plane=lambda: [
        layers.conv2d_in_plane(image(), [3, 1]),
        layers.conv2d_in_plane(image(), 2, stride=2, padding="VALID", activation_fn=None),
    ],
    separable=lambda: [
        layers.separable_conv2d(image(), 4, 3, 2),
        layers.separable_conv2d(image(), None, 3, 1, stride=2, weights_regularizer=layers.l2_regularizer(0.1)),
        layers.separable_conv2d(image(), 4, 3, 1, normalizer_fn=layers.batch_norm, normalizer_params=BN, rate=2),
        layers.separable_conv2d(image(), None, 2, 2, rate=2, padding="VALID"),
    ],
    pools=lambda: [
        layers.max_pool2d(image(), 2),
        layers.avg_pool2d(image(), [2, 3], stride=1, padding="SAME"),
        layers.max_pool3d(image()[..., None], 2),
        layers.avg_pool3d(image()[..., None], 2),
        slim.pool(image(), 2, "MAX"),
        slim.pool(image(), [3, 2], "AVG", padding="SAME", stride=2, outputs_collections="outs"),
    ],
    bn=lambda: [layers.batch_norm(image())],
    bn_all=lambda: [
        layers.batch_norm(
            image(),
            decay=0.9,
            scale=True,
            epsilon=0.1,
            activation_fn=tf.nn.relu,
            outputs_collections="outs",
            variables_collections=["vars"],
            param_regularizers={"beta": layers.l2_regularizer(0.1)},
        )
    ],
    bn_features=lambda: [layers.batch_norm(feats(), decay=0.9, scale=True)],
    bn_features_unfused=lambda: [layers.batch_norm(feats(), decay=0.9, scale=True, fused=False)],
    bn_sequence=lambda: [layers.batch_norm(seq(), decay=0.9)],
    bn_unfused=lambda: [layers.batch_norm(image(), decay=0.9, fused=False)],
    bn_test=lambda: [
        layers.batch_norm(image(), is_training=False, scale=True),
        layers.batch_norm(feats(), is_training=False),
        layers.batch_norm(image(), is_training=False, fused=False),
    ],
    bn_flag=lambda: [
        layers.batch_norm(image(), is_training=flag()),
        layers.batch_norm(feats(), is_training=flag(), decay=0.9),
        layers.batch_norm(image(), is_training=flag(), fused=False, decay=0.9),
    ],
    bn_forced=lambda: [
        layers.batch_norm(image(), updates_collections=None, decay=0.9),
        layers.batch_norm(feats(), updates_collections=None, decay=0.9, fused=False),
        layers.batch_norm(image(), updates_collections="mine", decay=0.8),
    ],
    bn_forced_flag=lambda: [layers.batch_norm(image(), updates_collections=None, decay=0.9, is_training=flag())],
    bn_debias=lambda: [layers.batch_norm(image(), zero_debias_moving_mean=True, decay=0.9)],
    bn_debias_unfused=lambda: [
        layers.batch_norm(feats(), zero_debias_moving_mean=True, decay=0.9, fused=False, updates_collections=None)
    ],
    bn_weights=lambda: [layers.batch_norm(feats(), batch_weights=tf.constant([1.0, 0.0, 2.0, 1.0]), decay=0.9)],
    bn_first=lambda: [layers.batch_norm(first(), data_format="NCHW", decay=0.9, fused=False)],
    bn_renorm=lambda: [
        layers.batch_norm(
            image(), renorm=True, decay=0.9, renorm_clipping={"rmax": 1.5, "rmin": 0.5, "dmax": 0.5}, scale=True
        )
    ],
    bn_inits=lambda: [
        layers.batch_norm(
            image(),
            center=False,
            scale=True,
            param_initializers={"gamma": tf.zeros_initializer(), "moving_mean": tf.ones_initializer()},
            trainable=False,
        )
    ],
    bn_reuse=lambda: [layers.batch_norm(image(), scope="b"), layers.batch_norm(image() * 2, scope="b", reuse=True)],
    norms=lambda: [
        layers.layer_norm(feats()),
        layers.layer_norm(image(), begin_norm_axis=1, begin_params_axis=2, activation_fn=tf.nn.relu),
        layers.layer_norm(seq(), begin_norm_axis=2, scale=False),
        layers.instance_norm(image()),
        layers.instance_norm(first(), data_format="NCHW", center=False),
        layers.group_norm(image(), groups=3),
        layers.group_norm(first(), groups=2, channels_axis=-3, reduction_axes=(-2, -1)),
        layers.group_norm(image(), groups=3, mean_close_to_zero=True),
    ],
    bias=lambda: [
        layers.bias_add(image()),
        layers.bias_add(first(), data_format="NCHW", regularizer=layers.l2_regularizer(0.1)),
        layers.bias_add(feats(), activation_fn=tf.nn.relu),
    ],
    shapes=lambda: [
        layers.flatten(image(), outputs_collections="outs"),
        layers.flatten(seq()),
        layers.one_hot_encoding(tf.constant([1, 0, 2]), 4, on_value=2.0),
        layers.maxout(image(), 3),
        layers.maxout(feats(), 3, scope="m"),
        layers.softmax(seq()),
        layers.unit_norm(feats(), 1),
        layers.unit_norm(image(), 3),
        layers.dropout(feats(), is_training=False),
        layers.dropout(feats(), keep_prob=1.0),
        layers.dropout(feats(), is_training=flag(), keep_prob=1.0),
        layers.images_to_sequence(image()),
        layers.spatial_softmax(image()),
        layers.spatial_softmax(first(), temperature=0.5, data_format="NCHW"),
    ],
    sparse=lambda: [
        tf.sparse_tensor_to_dense(layers.dense_to_sparse(tf.constant([[1, 0, 2], [0, 0, 3]]))),
        layers.sequence_to_images(tf.reshape(tf.range(48.0), [4, 6, 2]), 2),
    ],
    embed=lambda: [
        layers.embed_sequence(tf.constant([[1, 2, 0], [3, 3, 1]]), 5, 4),
        layers.embed_sequence(
            tf.constant([[1, 2, 0]]), 5, 4, unique=True, regularizer=layers.l2_regularizer(0.1), scope="e"
        ),
        layers.bow_encoder(tf.constant([[1, 2, 0], [3, 3, 1]]), 5, 4),
        layers.bow_encoder(tf.constant([[1, 2, 0], [3, 3, 1]]), 5, 4, sparse_lookup=False, scope="d"),
    ],
    repeat=lambda: [
        layers.repeat(image(), 2, layers.conv2d, 3, [3, 3], scope="conv1"),
        layers.repeat(feats(), 2, layers.fully_connected, 3),
        layers.stack(feats(), layers.fully_connected, [3, 4], scope="fc"),
        layers.stack(image(), layers.conv2d, [(4, [3, 3]), (2, 1)]),
    ],
)


@case
def arg_scopes():
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.01), activation_fn=tf.nn.elu
    ):
        with slim.arg_scope([slim.conv2d], stride=2, normalizer_fn=slim.batch_norm, normalizer_params=BN) as scope:
            net = slim.conv2d(image(), 4, [3, 3], scope="c1")
        net = slim.conv2d(net, 3, 1)
        net = slim.fully_connected(slim.flatten(net), 5)
        with slim.arg_scope(scope):
            other = slim.conv2d(image(), 2, 3, activation_fn=None)
    return [net, other]


@case
def in_scopes():
    with tf.variable_scope("tower", regularizer=layers.l2_regularizer(0.5)):
        a = layers.conv2d(image(), 2, 3)
        b = layers.batch_norm(a)
    with tf.variable_scope("tower", reuse=True):
        c = layers.conv2d(image(), 2, 3)
        d = layers.batch_norm(c)
    with tf.variable_scope("part", partitioner=tf.fixed_size_partitioner(2)):
        e = layers.fully_connected(feats(), 3)
    return [a, b, c, d, e]


@case
def regularizers():
    w = tf.constant([[1.0, -2.0], [3.0, -4.0]])
    with tf.variable_scope("r"):
        return [
            layers.l1_regularizer(0.1)(w),
            layers.l2_regularizer(0.1, scope="mine")(w),
            layers.l1_l2_regularizer(0.1, 0.2)(w),
            layers.sum_regularizer([layers.l1_regularizer(0.1), layers.l2_regularizer(0.3)])(w),
            layers.apply_regularization(layers.l2_regularizer(1.0), [w, w]),
        ]


@case
def summaries():
    layers.fully_connected(feats(), 3, outputs_collections=tf.GraphKeys.ACTIVATIONS)
    layers.summarize_tensors(tf.trainable_variables())
    layers.summarize_activations()
    layers.summarize_collection(tf.GraphKeys.TRAINABLE_VARIABLES, name_filter=".*biases")
    return []


def _optimize(**options):
    def build():
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(tf.square(w) * [1.0, 2.0, 3.0]) + tf.reduce_sum(v * 5)
        return [
            layers.optimize_loss(
                loss, step, options.pop("learning_rate", 0.1), options.pop("optimizer", "SGD"), **options
            )
        ]

    return build


cases(
    optimize=_optimize(),
    optimize_adam=_optimize(
        optimizer="Adam",
        clip_gradients=1.0,
        summaries=["loss", "learning_rate", "gradients", "gradient_norm", "global_gradient_norm"],
    ),
    optimize_decay=_optimize(learning_rate_decay_fn=lambda rate, step: rate * 0.5, gradient_multipliers={"w": 2.0}),
    optimize_adaptive=_optimize(clip_gradients=slim.adaptive_clipping_fn(report_summary=True), name="Mine"),
    optimize_class=_optimize(optimizer=lambda rate: tf.train.MomentumOptimizer(rate, 0.9), increment_global_step=False),
)


@case
def train_op():
    labels = tf.constant([[0.0, 1.0, 0.0]] * 4)
    net = slim.fully_connected(
        feats(),
        3,
        activation_fn=None,
        normalizer_fn=slim.batch_norm,
        normalizer_params=BN,
        weights_regularizer=slim.l2_regularizer(0.1),
    )
    slim.losses.softmax_cross_entropy(net, labels)
    total = slim.losses.get_total_loss()
    op = slim.learning.create_train_op(
        total,
        tf.train.GradientDescentOptimizer(0.1),
        clip_gradient_norm=0.5,
        summarize_gradients=True,
        gradient_multipliers={"fully_connected/weights": 2.0},
    )
    return [total, op]


@case
def variables():
    with tf.variable_scope("scope"):
        a = framework.variable(
            "a", [2], regularizer=layers.l2_regularizer(0.1), collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES]
        )
        b = framework.model_variable("b", [2], collections=["mine"], device="/cpu:0")
        c = framework.local_variable(tf.zeros([2]), name="c")
        d = framework.global_variable(tf.zeros([2]), name="d")
    step = framework.get_or_create_global_step()
    return [a, b, c, d, step]


def inputs():
    """Make the inputs of all cases."""
    rng = np.random.RandomState(0)
    values = {"image": (2, 4, 6, 6), "channels_first": (2, 6, 4, 6), "features": (4, 6), "sequence": (4, 5, 6)}
    feeds = {"flag": True}
    for name, shape in values.items():
        tf.placeholder(tf.float32, (None,) + shape[1:], name=name)
        feeds[name] = rng.randn(*shape).astype("float32")
    tf.placeholder_with_default(True, [], name="flag")
    return {name + ":0": value for name, value in feeds.items()}


def weight(name, shape, dtype):
    """Return values that depend on a variable's name."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) % 2**31)
    if name.endswith("local_step"):
        return np.zeros(shape, dtype)
    value = (
        rng.uniform(0.2, 1.0, shape)
        if "variance" in name or "stddev" in name or "Adam_1" in name
        else rng.uniform(-1.0, 1.0, shape)
    )
    return value.astype(dtype)


def collected():
    """Return what is in the collections of the graph, by name; of updates, how many there are."""
    found = {}
    for key in tf.get_default_graph().get_all_collection_keys():
        items = tf.get_collection(key) if isinstance(key, str) and key != "cond_context" else []
        if key in (tf.GraphKeys.UPDATE_OPS, "mine", tf.GraphKeys.TRAIN_OP) and items:
            found[key] = len(items)
        elif items:
            names = sorted(
                tf.convert_to_tensor(item).name if not hasattr(item, "op") else item.op.name for item in items
            )
            found[key] = [name.split(":")[0] for name in names]
            found[key + " aliases"] = [getattr(item, "aliases", None) for item in items]
    return found


def observe(build, folder, name):
    """Return what a case made and computed."""
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = inputs()
        outputs = build()
        every = tf.global_variables() + tf.local_variables()
        trained = tf.trainable_variables()
        facts = {
            "variables": sorted((v.op.name, v.shape.as_list(), v.dtype.base_dtype.name) for v in every),
            "order": [v.op.name for v in tf.global_variables()],
            "collections": collected(),
            "shapes": [output.shape.as_list() for output in outputs],
        }
        total = tf.add_n([tf.reduce_sum(tf.cast(o, tf.float32) ** 2) for o in outputs] or [tf.zeros([])])
        # A train op would be run by its own gradients.
        is_step = any("control_dependency" in output.name for output in outputs)
        gradients = [] if is_step else tf.gradients(total, trained)
        updates = [u for u in tf.get_collection(tf.GraphKeys.UPDATE_OPS) if u not in outputs]
        saver = tf.train.Saver(every, save_relative_paths=True) if every else None
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        path = os.path.join(folder, name)
        if IS_ORIGINAL and every:
            for v in every:
                v.load(weight(v.op.name, v.shape.as_list(), v.dtype.base_dtype.as_numpy_dtype), session)
            saver.save(session, path, write_meta_graph=False)

        def fetch(fetches):
            if every:
                saver.restore(session, path)
            return session.run(fetches, feeds)

        # Python 3.7 has no strict zip.
        pairs = zip(trained, gradients)  # noqa: B905
        found = {v.op.name: tf.convert_to_tensor(g) for v, g in pairs if g is not None}
        facts["losses"] = fetch(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) if not is_step else []
        facts["gradients"] = fetch(found) if found else {}
        facts["outputs"] = fetch(outputs) if not is_step else fetch(outputs) and []
        if updates and not is_step:
            fetch(updates)
        facts["after"] = {v.op.name: session.run(v) for v in every}
        return facts


def differences(theirs, ours, where=""):  # noqa: C901 (a case for each kind of value)
    """Yield a line for each difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(set(theirs) | set(ours)):
            for line in differences(theirs.get(key), ours.get(key), where + "/" + key):
                yield line
    elif where.endswith(("losses", "outputs")) and len(theirs) == len(ours):
        for index, one in enumerate(theirs):
            for line in differences(one, ours[index], f"{where} {index}"):
                yield line
    elif isinstance(theirs, (np.ndarray, np.generic)) and np.shape(theirs) == np.shape(ours):
        if not np.allclose(theirs, ours, 1e-4, 1e-5, equal_nan=True):
            yield f"{where}: differs by {np.max(np.abs(np.subtract(theirs, ours))):g}"
    elif theirs != ours:
        yield f"{where}: 1.15 {theirs}, here {ours}"


def outcome(name, folder):
    """Return what a case made and computed, or the kind of its error."""
    try:
        return observe(CASES[name], folder, name)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}


def main():
    """Write down what this TensorFlow does, or compare it with what another does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("python", nargs="?")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--write")
    args = parser.parse_args()
    names = args.only or list(CASES)
    if args.write:
        found = {name: outcome(name, args.write) for name in names}
        with open(os.path.join(args.write, "facts"), "wb") as file:
            pickle.dump(found, file, 4)
        return
    from tests.helpers import tensorflow_1  # noqa: PLC0415 (the other Python does not have it)

    num_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        command = [args.python, "-W", "ignore", __file__, "--write", folder, "--only"] + names
        tensorflow_1.run(command)
        with open(os.path.join(folder, "facts"), "rb") as file:
            theirs = pickle.load(file)
        for name in names:
            if "error" in theirs[name]:
                print("{}: 1.15 cannot run it: {}".format(name, theirs[name]["message"]))
                continue
            lines = list(differences(theirs[name], outcome(name, folder)))
            num_wrong += bool(lines)
            print("{}: {}".format(name, "differs" if lines else "the same"))
            for line in lines:
                print("    " + line[:500])
    print(f"{len(names)} cases, {num_wrong} differ")


if __name__ == "__main__":
    main()
