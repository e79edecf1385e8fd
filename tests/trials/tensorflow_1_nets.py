"""Build the networks of ``tf.contrib.slim.nets`` in TensorFlow 1.15 and in `tpack.tf1`, and compare them.

    python -m tests.trials.tensorflow_1_nets PYTHON_OF_1_15

The file runs in both, so it has no syntax newer than 3.7. Names and shapes of variables and end points, numbers of
updates and regularizers, and outputs with weights that depend on the variables' names only are compared.
"""

import os
import pickle
import sys
import tempfile
import zlib

import numpy as np

IS_ORIGINAL = sys.version_info < (3, 8)
if IS_ORIGINAL:
    import tensorflow as tf
    from tensorflow.contrib import slim
    from tensorflow.contrib.slim.nets import resnet_v1, resnet_v2, vgg
else:
    import tensorflow.compat.v1 as tf

    from tests.helpers import tensorflow_1
    from tpack.tf1.contrib import slim
    from tpack.tf1.contrib.slim.nets import resnet_v1, resnet_v2, vgg

CASES = {
    "resnet_v1_50": (resnet_v1.resnet_arg_scope, resnet_v1.resnet_v1_50, {"num_classes": 10, "is_training": False}),
    "resnet_v1_50 in training": (resnet_v1.resnet_arg_scope, resnet_v1.resnet_v1_50, {"num_classes": 10}),
    "resnet_v1_101 with dilation": (
        resnet_v1.resnet_arg_scope,
        resnet_v1.resnet_v1_101,
        {"is_training": False, "global_pool": False, "output_stride": 16},
    ),
    "resnet_v2_50": (resnet_v2.resnet_arg_scope, resnet_v2.resnet_v2_50, {"num_classes": 10, "is_training": False}),
    "resnet_v2_50 with dilation": (
        resnet_v2.resnet_arg_scope,
        resnet_v2.resnet_v2_50,
        {"num_classes": 10, "output_stride": 8},
    ),
    "vgg_16": (vgg.vgg_arg_scope, vgg.vgg_16, {"num_classes": 10, "is_training": False}),
    "vgg_a": (vgg.vgg_arg_scope, vgg.vgg_a, {"num_classes": 7, "is_training": False, "spatial_squeeze": False}),
}


def weight(name, shape):
    """Return the value of a variable, by its name."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    if len(shape) == 1:
        return (rng.rand(*shape) * 0.5 + 0.75).astype("float32")
    return (rng.randn(*shape) * np.sqrt(2.0 / np.prod(shape[:-1]))).astype("float32")


def observe(name):
    """Return facts of a case, and its output."""
    make_scope, build, options = CASES[name]
    side = 224 if name.startswith("vgg") else 65
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.constant(np.random.RandomState(0).rand(2, side, side, 3).astype("float32"))
        with slim.arg_scope(make_scope()):
            output, end_points = build(images, **options)
        variables = tf.global_variables()
        for variable in variables:
            variable.load(weight(variable.op.name, variable.shape.as_list()), session)
        facts = {
            "variables": sorted((v.op.name, v.shape.as_list(), v in tf.trainable_variables()) for v in variables),
            "end points": sorted((key, tensor.shape.as_list()) for key, tensor in end_points.items()),
            "output": output.op.name,
            "updates": len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)),
            "regularizers": len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)),
        }
        return facts, session.run(output)


def main():
    """Write down what this TensorFlow does, or compare it with what another does."""
    path = os.path.join(tempfile.gettempdir(), "tensorflow_1_nets.pkl")
    if IS_ORIGINAL:
        with open(path, "wb") as file:
            pickle.dump({name: observe(name) for name in CASES}, file, 2)
        return
    tensorflow_1.run([sys.argv[1], os.path.abspath(__file__)])
    with open(path, "rb") as file:
        theirs = pickle.load(file)
    for name in CASES:
        facts, output = observe(name)
        wrong = [key for key in facts if facts[key] != theirs[name][0][key]]
        error = np.abs(output - theirs[name][1]).max() / np.abs(output).max()
        equal = not wrong and error < 1e-5
        print(f"{name}: {'equal' if equal else f'differs in {wrong}'}, outputs by {error:.2g}", flush=True)


if __name__ == "__main__":
    main()
