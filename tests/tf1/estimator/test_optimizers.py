"""Optimizers by name, as objects and as functions."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.estimator.optimizers import check_optimizer, in_towers, make_optimizer


def test_a_name_an_object_and_a_function_stand_for_an_optimizer(graph):
    adam = tf.train.AdamOptimizer()
    assert isinstance(make_optimizer("Ftrl", 0.1), tf.train.FtrlOptimizer)
    assert make_optimizer(adam, 0.1) is make_optimizer(lambda: adam, 0.1) is in_towers(adam) is adam


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(ConfigError, match="expected one of Adagrad, Adam, Ftrl, RMSProp, SGD"):
        check_optimizer("adam")
    for wrong in (3, tf.keras.optimizers.SGD()):
        with pytest.raises(WrongTypeError, match=r"a tf.train.Optimizer of TensorFlow 1, its name, or a function"):
            check_optimizer(wrong)
    with pytest.raises(WrongTypeError, match=r"expected a tf\.train\.Optimizer"):
        make_optimizer(lambda: "Adam", 0.1)
