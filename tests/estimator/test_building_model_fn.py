"""A model_fn is called with what it takes, and what is none is refused."""

import functools

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import call_model_fn, check_model_fn
from tpack.estimator.spec import EstimatorSpec, ModeKeys


def spec_of(mode=ModeKeys.PREDICT):
    return EstimatorSpec(mode, tf.constant([1.0]), tf.constant(1.0), tf.no_op())


def test_gets_what_it_takes(graph):
    calls = []

    def everything(features, labels, mode, params, config):
        calls.append((features, labels, mode, params, config))
        params.clear()
        return spec_of()

    params = {"a": [1]}
    call_model_fn(everything, "f", "l", "infer", params=params, config="c")
    call_model_fn(lambda features: spec_of(), "f", None, "infer", params=params, config="c")
    call_model_fn(lambda features, mode: spec_of(mode), "f", None, "train")
    # The second call of the first one is to find what the first call removed.
    call_model_fn(everything, "f", None, "infer", params=params)
    assert calls == [("f", "l", "infer", {}, "c"), ("f", None, "infer", {}, None)]
    assert params == {"a": [1]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: call_model_fn(lambda features: spec_of(), 1, 2, "infer"), "does not take labels"),
        (lambda: call_model_fn(lambda features: 5, 1, None, "infer"), "returned 5: expected an EstimatorSpec"),
        (lambda: call_model_fn(lambda features: spec_of("eval"), 1, None, "infer"), "mode 'eval': expected 'infer'"),
        (lambda: check_model_fn("model"), "got model_fn='model': expected a function"),
        (lambda: check_model_fn(lambda x: x), "does not take features: expected"),
        (lambda: check_model_fn(lambda features: 0, {}), "does not take params"),
        (lambda: check_model_fn(lambda features, width: 0), "requires width: expected only features, labels"),
    ],
)
def test_what_cannot_be_is_refused(graph, call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_extra_arguments_with_values_are_fine():
    def model(features, labels, width):
        return features, labels, width

    assert check_model_fn(functools.partial(model, width=3)) is None
    assert check_model_fn(lambda features, labels, params, width=3: 0, {"a": 1}) is None
