"""The graph that tests of ``tf.contrib.graph_editor`` edit; results were compared with TensorFlow 1.15.5."""

import tensorflow.compat.v1 as tf


def build():
    """Return tensors a to g: ``g = f + a``, ``f = c - e``, ``e = d``, ``d = 2 c``, ``c = a + b``; e runs after b."""
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.constant([1.0, 2.0], name="b")
    with tf.name_scope("s"):
        c = tf.add(a, b, name="c")
        # TensorFlow 2.22 gives a number another name than the versions before.
        d = tf.multiply(c, tf.constant(2.0, name="d/y"), name="d")
        with tf.control_dependencies([b.op]):
            e = tf.identity(d, name="e")
    f = tf.subtract(c, e, name="f")
    g = tf.add(f, a, name="g")
    return a, b, c, d, e, f, g


def names(elements):
    """Return the names of operations or tensors, without scopes and numbers, in alphabetical order."""
    return " ".join(sorted(element.name.removeprefix("s/").removesuffix(":0") for element in elements))


def inputs(op):
    """Return the inputs of an operation."""
    return [tensor.name.removesuffix(":0") for tensor in op.inputs]
