"""The contract's own part: checks around what a subclass does, the cached name scope, what is not overridden."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE
from tpack.errors import DataPointError, InputError
from tpack.input_source.base import FeedfreeInput, InputSource


class Given(FeedfreeInput):
    def __init__(self, make):
        self.make = make

    def _get_input_tensors(self):
        with self.cached_name_scope():
            return self.make()

    def _reset_state(self):
        self._require_session()


def good():
    return [tf.zeros([3, 2], name="z"), tf.constant(1)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: good()[:1], "Given gives 1 tensors, the signature expects 2"),
        (lambda: good()[::-1], r"component 0 \('image'\) has dtype int32, expected float32"),
        (lambda: [tf.zeros([3]), tf.constant(1)], r"component 0 \('image'\) has shape \(3,\), expected \(None, 2\)"),
        (lambda: [tf.zeros([3, 2]), 1], r"component 1 \('label'\) is 1, expected a tensor"),
    ],
)
def test_tensors_that_do_not_fit_are_an_error(graph, make, message):
    source = Given(make)
    source.setup(SIGNATURE)
    with pytest.raises(DataPointError, match=message):
        source.get_input_tensors()


def test_cached_name_scope_is_the_same_each_time(graph):
    with tf.name_scope("outer"):
        first, second = Given(good), Given(good)
        first.setup(SIGNATURE)
        names = [
            first.get_input_tensors()[0].op.name,
            second.setup(SIGNATURE) and second.get_input_tensors()[0].op.name,
        ]
    with tf.name_scope("tower1"):
        names.append(first.get_input_tensors()[0].op.name)
    assert names == ["outer/Given/z", "outer/Given_1/z", "outer/Given/z_1"]


def test_the_first_callback_resets_the_state_before_training(graph):
    source = Given(good)
    callbacks = source.setup(SIGNATURE)
    with pytest.raises(InputError, match="Given is reset without a default session"):
        callbacks[0].before_train()
    with tf.Session().as_default():
        callbacks[0].before_train()
    assert len(callbacks) == 1


def test_what_is_not_overridden_says_so(graph):
    source = InputSource()
    source.setup(SIGNATURE)
    source.reset_state()
    with pytest.raises(NotImplementedError, match="InputSource does not override _get_input_tensors"):
        source.get_input_tensors()
    with pytest.raises(NotImplementedError, match="the size of InputSource is not known"):
        source.size()
