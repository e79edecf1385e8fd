"""Variables of layers, and the end of layers."""

import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names
from tpack.tf1.contrib.layers.layer_weights import LayerParts, Weights


def test_a_variable_has_its_collections_and_one_loss(graph):
    weights = Weights({"w": ["mine"]}, True, tf.float32)
    for reuse in (None, True):
        with tf.variable_scope("layer", reuse=reuse):
            weights.make("w", [2], None, tf.nn.l2_loss, "kernel")
            average = weights.make_average("average", [2], tf.zeros_initializer())
    assert names("mine") == ["layer/w"]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == ["layer/w", "layer/average"]
    assert names(tf.GraphKeys.TRAINABLE_VARIABLES) == ["layer/w"]
    assert average.synchronization == tf.VariableSynchronization.ON_READ
    (loss,) = tf.losses.get_regularization_losses()
    assert tf.convert_to_tensor(loss).op.name == "layer/kernel/Regularizer/L2Loss"


def test_an_output_is_normalised_activated_and_collected(graph):
    given = dict.fromkeys(LayerParts.ARGUMENTS)
    given |= {"activation_fn": tf.nn.relu, "normalizer_fn": lambda x, factor: x * factor}
    given |= {"normalizer_params": {"factor": -1.0}, "outputs_collections": "outs", "biases_initializer": tf.nn.relu}
    layer = LayerParts(tf.float32, **given)
    with tf.variable_scope("layer") as scope:
        assert layer.bias(2) is None
        outputs = layer.end(tf.constant([1.0, -2.0]), scope)
    assert (outputs.aliases, names("outs")) == (["layer"], ["layer/Relu"])
    with tf.Session() as session:
        assert session.run(outputs).tolist() == [0.0, 2.0]
