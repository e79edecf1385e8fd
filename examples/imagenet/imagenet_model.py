"""What classifying photographs adds to a network: pixels, the cost, and whether the class is among the guesses."""

import math

import tensorflow.compat.v1 as tf

from tpack import ModelDesc, TowerContext
from tpack.models import l2_regularizer, regularize_cost
from tpack.tfutils.summary import add_moving_summary

# Of the photographs in the training set, in blue, green and red.
PIXEL_MEAN = (103.53, 116.28, 123.675)
PIXEL_STD = (57.375, 57.12, 58.395)


class ImageNetModel(ModelDesc):
    """Trains a network on photographs; `build_graph` is called once for each tower.

    The tensors ``wrong-top1`` and ``wrong-top5`` have a 1 for each image whose class is not the first guess, or not one
    of the first five; ``probabilities`` has the guesses.

    Args:
        network: a function of images that returns logits.
        size: height and width of the images.
        weight_decay: of all kernels and matrices.
        label_smoothing: how much of the probability the wrong classes get while training.
        momentum: of the optimizer.
        compute_dtype: what the network computes in.
    """

    def __init__(
        self, network, size=224, *, weight_decay=1e-4, label_smoothing=0.1, momentum=0.9, compute_dtype=tf.float32
    ):
        self.network = network
        self.size = size
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.momentum = momentum
        self.compute_dtype = compute_dtype

    def inputs(self):
        return [
            # Bytes, in blue, green and red: a quarter of what floats would take on the way to the device.
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        pixels = (tf.cast(image, tf.float32) - PIXEL_MEAN) / PIXEL_STD
        logits = tf.cast(self.network(tf.cast(pixels, self.compute_dtype)), tf.float32, name="logits")
        tf.nn.softmax(logits, name="probabilities")
        wrongs = {k: _wrong(logits, label, k) for k in (1, 5)}

        num_classes = int(logits.shape[1])
        smoothing = self.label_smoothing if self.training else 0.0
        targets = tf.one_hot(label, num_classes) * (1 - smoothing) + smoothing / num_classes
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        loss = tf.reduce_mean(losses, name="loss")
        decay = regularize_cost(".*/W", l2_regularizer(self.weight_decay), name="weight_decay")
        cost = tf.add(loss, decay, name="cost")
        if self.training:
            means = [tf.reduce_mean(wrong, name=f"train-error-top{k}") for k, wrong in wrongs.items()]
            add_moving_summary(loss, decay, cost, *means)
        return cost

    def optimizer(self):
        learning_rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.MomentumOptimizer(learning_rate, self.momentum, use_nesterov=True)


def cost_of(network, size):
    """Return how many parameters a network has, and how many products it adds up for an image of size x size pixels.

    Only what convolutions and matrices take is counted, as papers do.
    """
    with tf.Graph().as_default() as graph:
        with TowerContext("", is_training=True):
            network(tf.zeros([1, size, size, 3]))
        parameters = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
        products = 0
        for op in graph.get_operations():
            if op.type in ("Conv2D", "DepthwiseConv2dNative", "MatMul"):
                kernel = op.inputs[1].shape.as_list()
                # Each number of a result sums a window of all of the kernel's inputs, or of one where it is depthwise.
                window = kernel[:2] if op.type == "DepthwiseConv2dNative" else kernel[:-1]
                products += op.outputs[0].shape.num_elements() * math.prod(window)
    return parameters, products


def _wrong(logits, label, k):
    """Return 1 for each image whose class is not among the first k, in a tensor called ``wrong-top<k>``."""
    is_right = tf.nn.in_top_k(logits, label, min(k, int(logits.shape[1])))
    return tf.cast(tf.logical_not(is_right), tf.float32, name=f"wrong-top{k}")
