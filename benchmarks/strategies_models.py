"""The networks of `strategies.py`: in plain TensorFlow calls, for graphs and functions alike, and in Keras layers.

In plain calls there are no moving averages: batch normalisation uses the statistics of each tower's batch.

Source:
    He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385, for ResNet-20.
"""

import math

import tensorflow
import tensorflow.compat.v1 as tf

CLASSES = 10
SHAPES = {"resnet20": (32, 32, 3), "digits": (8, 8, 1)}
WIDTHS = (16, 32, 64)
BLOCKS = 3


def cost(name, image, label, weight):
    """Return the mean loss of a batch.

    Args:
        name: a key of `SHAPES`.
        image: [batch, *SHAPES[name]].
        label: [batch], integers below `CLASSES`.
        weight: called with a name, a shape and a standard deviation, returns a variable; with 0.0 it begins at 0, with
            None at 1.
    """
    features = (_resnet20 if name == "resnet20" else _digits)(image, weight)
    logits = features @ weight("linear/W", [features.shape[-1], CLASSES], 0.01) + weight("linear/b", [CLASSES], 0.0)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))


def weight_shapes(name):
    """Return the arguments of all calls of ``weight`` by their names."""
    shapes = {}

    def weight(variable, shape, stddev):
        shapes[variable] = (shape, stddev)
        return tf.zeros(shape)

    with tf.Graph().as_default():
        cost(name, tf.zeros([1, *SHAPES[name]]), tf.zeros([1], tf.int32), weight)
    return shapes


def initial_value(shape, stddev):
    """Return the first value of a variable."""
    if stddev is None:
        return tf.ones(shape)
    return tf.random.normal(shape, stddev=stddev, seed=len(shape)) if stddev else tf.zeros(shape)


def _convolution(name, features, channels, weight, *, stride=1):
    shape = [3, 3, features.shape[-1], channels]
    kernel = weight(f"{name}/W", shape, math.sqrt(2 / (9 * channels)))
    features = tf.nn.conv2d(features, kernel, strides=stride, padding="SAME")
    scale, offset = weight(f"{name}/gamma", [channels], None), weight(f"{name}/beta", [channels], 0.0)
    return tf.nn.fused_batch_norm(features, scale, offset, epsilon=1e-3, is_training=True)[0]


def _resnet20(image, weight):
    features = tf.nn.relu(_convolution("conv0", image, WIDTHS[0], weight))
    for width in WIDTHS:
        for block in range(BLOCKS):
            name, stride = f"group{width}_block{block}", 2 if block == 0 and width != WIDTHS[0] else 1
            inner = tf.nn.relu(_convolution(f"{name}/conv1", features, width, weight, stride=stride))
            inner = _convolution(f"{name}/conv2", inner, width, weight)
            if stride == 2:
                features = tf.nn.avg_pool2d(features, 2, 2, "SAME")
                features = tf.pad(features, [[0, 0], [0, 0], [0, 0], [width // 4, width // 4]])
            features = tf.nn.relu(features + inner)
    return tf.reduce_mean(features, [1, 2])


def _digits(image, weight):
    features = tf.nn.relu(_convolution("conv1", image, 32, weight))
    features = tf.nn.relu(_convolution("conv2", features, 64, weight))
    features = tf.nn.max_pool2d(features, 2, 2, "SAME")
    return tf.reshape(features, [-1, math.prod(features.shape[1:])])


def keras_model(name):
    """Return the network as a Keras model of layers."""
    keras = tensorflow.keras
    layers = keras.layers

    def convolution(features, channels, stride=1):
        features = layers.Conv2D(channels, 3, stride, padding="same", use_bias=False)(features)
        return layers.BatchNormalization()(features)

    inputs = features = keras.Input(SHAPES[name])
    if name == "digits":
        for channels in (32, 64):
            features = layers.ReLU()(convolution(features, channels))
        features = layers.Flatten()(layers.MaxPooling2D(2)(features))
    else:
        features = layers.ReLU()(convolution(features, WIDTHS[0]))
        for width in WIDTHS:
            for block in range(BLOCKS):
                stride = 2 if block == 0 and width != WIDTHS[0] else 1
                inner = convolution(layers.ReLU()(convolution(features, width, stride)), width)
                if stride == 2:
                    features = layers.AveragePooling2D(2)(features)
                    features = layers.Concatenate()([features, features])
                features = layers.ReLU()(layers.Add()([features, inner]))
        features = layers.GlobalAveragePooling2D()(features)
    return keras.Model(inputs, layers.Dense(CLASSES)(features))
