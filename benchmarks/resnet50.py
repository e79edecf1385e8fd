"""ResNet-50 in plain TensorFlow calls: the model of the benchmarks that need a graph of real size.

161 trainable variables with 25.6 million elements, as in the paper, with the stride in the 3 x 3 convolutions.

Source:
    He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
"""

import tensorflow.compat.v1 as tf

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, number of blocks, and stride of the first block."""

CLASSES = 1000


def cost(image, label):
    """Return the mean loss of a batch.

    Args:
        image: [batch, height, width, 3].
        label: [batch], integers below `CLASSES`.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits(image))
    return tf.reduce_mean(losses, name="cost")


def logits(image):
    """Return [batch, CLASSES]; the updates of the moving averages go to the collection UPDATE_OPS."""
    features = tf.nn.relu(convolution("conv0", image, 64, size=7, stride=2))
    features = tf.nn.max_pool2d(features, ksize=3, strides=2, padding="SAME")
    for index, (width, blocks, stride) in enumerate(STAGES):
        for block in range(blocks):
            with tf.variable_scope(f"group{index}_block{block}"):
                features = bottleneck(features, width, stride if block == 0 else 1)
    features = tf.reduce_mean(features, axis=[1, 2])
    weights = tf.get_variable("linear/W", [features.shape[-1], CLASSES])
    bias = tf.get_variable("linear/b", [CLASSES], initializer=tf.zeros_initializer())
    return tf.matmul(features, weights) + bias


def bottleneck(features, width, stride):
    """Add a residual block of three convolutions."""
    shortcut = features
    if stride != 1 or features.shape[-1] != 4 * width:
        shortcut = convolution("shortcut", features, 4 * width, size=1, stride=stride)
    features = tf.nn.relu(convolution("conv1", features, width, size=1))
    features = tf.nn.relu(convolution("conv2", features, width, size=3, stride=stride))
    return tf.nn.relu(convolution("conv3", features, 4 * width, size=1) + shortcut)


def convolution(name, features, channels, *, size, stride=1):
    """Add a convolution without bias and a batch normalisation."""
    with tf.variable_scope(name):
        shape = [size, size, features.shape[-1], channels]
        weights = tf.get_variable("W", shape, initializer=tf.initializers.he_normal())
        return batch_norm(tf.nn.conv2d(features, weights, strides=stride, padding="SAME"))


def batch_norm(features, momentum=0.9):
    """Add a batch normalisation by the statistics of the batch."""
    shape = [features.shape[-1]]
    gamma = tf.get_variable("gamma", shape, initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", shape, initializer=tf.zeros_initializer())
    mean = tf.get_variable("mean", shape, initializer=tf.zeros_initializer(), trainable=False)
    variance = tf.get_variable("variance", shape, initializer=tf.ones_initializer(), trainable=False)
    features, batch_mean, batch_variance = tf.nn.fused_batch_norm(features, gamma, beta)
    for average, value in ((mean, batch_mean), (variance, batch_variance)):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(average, (1 - momentum) * (average - value)).op)
    return features
