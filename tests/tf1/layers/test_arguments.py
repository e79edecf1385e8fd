"""What layers take in several forms, and what they refuse."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.layers import arguments, core


class Owner:
    """Stands for a layer."""


OWNER = Owner()
X = np.array([[-1.0, 0.0, 2.0]], np.float32)
EXP = np.exp(X)
ACTIVATIONS = {
    "relu": np.maximum(X, 0),
    "sigmoid": EXP / (1 + EXP),
    "softmax": EXP / EXP.sum(),
    "softplus": np.log1p(EXP),
    "swish": X * EXP / (1 + EXP),
    "tanh": np.tanh(X),
}
INITIALIZERS = {"zeros": np.zeros([3, 3]), "ones": np.ones([3, 3]), "identity": np.eye(3)}
REGULARIZERS = {"l1": 0.03, "l2": 0.05, "l1_l2": 0.08}


def test_functions_are_known_by_name(graph):
    named = [
        {name: arguments.activation_of(OWNER, name)(tf.constant(X)) for name in ACTIVATIONS},
        {name: arguments.initializer_of(OWNER, name)([3, 3], tf.float32) for name in INITIALIZERS},
        {name: arguments.regularizer_of(OWNER, name)(tf.constant(X)) for name in REGULARIZERS},
    ]
    with tf.Session() as session:
        results = session.run(named)
    for got, wanted in zip(results, [ACTIVATIONS, INITIALIZERS, REGULARIZERS], strict=True):
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("shape", [[40, 50]])
def test_random_initializers_have_the_spread_of_their_names(graph, shape):
    deviations = {
        "glorot_uniform": (2 / 90) ** 0.5,
        "he_normal": (2 / 40) ** 0.5,
        "lecun_uniform": (1 / 40) ** 0.5,
        "normal": 0.05,
        "random_uniform": 0.05 / 3**0.5,
    }
    tf.set_random_seed(1)
    drawn = {name: arguments.initializer_of(OWNER, name)(shape, tf.float32) for name in deviations}
    with tf.Session() as session:
        for name, value in session.run(drawn).items():
            assert value.std() == pytest.approx(deviations[name], rel=0.08), name


@pytest.mark.parametrize("name", ["max_norm", "non_neg", "unit_norm"])
def test_constraints_are_those_of_keras(session8, name):
    constraint = {"max_norm": keras.constraints.MaxNorm, "non_neg": keras.constraints.NonNeg}
    weights = np.random.default_rng(0).normal(size=[3, 4]).astype("float32") * 3
    oracle = constraint.get(name, keras.constraints.UnitNorm)()
    made = [arguments.constraint_of(OWNER, kind)(tf.constant(weights)) for kind in (name, oracle)]
    got, wanted = session8.run(made)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert np.abs(got - weights).max() > 0.1


def test_what_keras_makes_is_taken(session8):
    drawn = keras.initializers.HeNormal(seed=1)
    layer = core.Dense(
        2,
        kernel_initializer=drawn,
        kernel_regularizer=keras.regularizers.L2(0.5),
        kernel_constraint=keras.constraints.NonNeg(),
    )
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(layer(tf.ones([1, 3]))))
    session8.run(tf.global_variables_initializer())
    before = layer.get_weights()[0]
    np.testing.assert_allclose(session8.run(layer.losses), [0.5 * np.square(before).sum()], rtol=1e-6)
    session8.run(train_op)
    np.testing.assert_allclose(layer.get_weights()[0], np.maximum(before - 0.1, 0), rtol=1e-6)
    assert core.Dense.from_config(layer.get_config()).kernel_initializer is drawn


def test_functions_are_taken_as_they_are():
    zeros = tf.zeros_initializer()
    assert arguments.activation_of(OWNER, tf.nn.relu) is tf.nn.relu
    assert arguments.activation_of(OWNER, None) is arguments.activation_of(OWNER, "linear") is None
    assert arguments.initializer_of(OWNER, zeros) is zeros
    assert isinstance(arguments.initializer_of(OWNER, tf.ones_initializer), tf.ones_initializer)
    assert arguments.initializer_of(OWNER, None) is arguments.regularizer_of(OWNER, None) is None
    assert arguments.regularizer_of(OWNER, tf.nn.l2_loss) is tf.nn.l2_loss


def test_sizes_are_numbers_for_each_dimension():
    assert arguments.sizes_of(OWNER, "strides", 3, 2) == (3, 3)
    for sizes in ((2, 3), [2, 3], np.array([2, 3]), tf.TensorShape([2, 3])):
        assert arguments.sizes_of(OWNER, "strides", sizes, 2) == (2, 3)
    assert arguments.count_of(OWNER, "units", 8 / 2) == 4
    assert isinstance(arguments.count_of(OWNER, "units", np.float32(4)), int)


def test_names_are_taken_in_any_case():
    assert arguments.check_data_format(OWNER, "Channels_First") == "channels_first"
    assert arguments.check_padding(OWNER, "SAME") == "same"
    assert arguments.check_padding(OWNER, "Causal", "causal") == "causal"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: arguments.activation_of(OWNER, "rely"), ConfigError, "Owner got activation='rely'"),
        (
            lambda: arguments.activation_of(OWNER, 3),
            WrongTypeError,
            "activation=3: expected a function, a name or None",
        ),
        (lambda: arguments.initializer_of(OWNER, "one"), ConfigError, "Owner got initializer='one'"),
        (lambda: arguments.regularizer_of(OWNER, "l3"), ConfigError, "Owner got regularizer='l3'"),
        (lambda: arguments.constraint_of(OWNER, "positive"), ConfigError, "Owner got constraint='positive'"),
        (lambda: arguments.constraint_of(OWNER, 3), WrongTypeError, "constraint=3: expected a function"),
        (lambda: arguments.initializer_of(OWNER, {"class_name": "O"}), ConfigError, "got the initializer .*Zeros"),
        (lambda: arguments.regularizer_of(OWNER, 0.1), WrongTypeError, "regularizer=0.1: expected a function"),
        (lambda: arguments.check_data_format(OWNER, "NHWC"), ConfigError, "Owner got data_format='nhwc'"),
        (lambda: arguments.check_data_format(OWNER, None), ConfigError, "Owner got data_format=None"),
        (lambda: arguments.check_padding(OWNER, "causal"), ConfigError, "Owner got padding='causal'"),
        (lambda: arguments.count_of(OWNER, "units", 2.5), ConfigError, "Owner got units=2.5"),
        (lambda: arguments.count_of(OWNER, "units", 0), ConfigError, "Owner got units=0"),
        (lambda: arguments.sizes_of(OWNER, "strides", (1, 2, 3), 2), ConfigError, "expected one number or 2"),
        (lambda: arguments.sizes_of(OWNER, "strides", (1, 0), 2), ConfigError, "Owner got strides=0"),
    ],
)
def test_anything_else_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
