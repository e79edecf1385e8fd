"""All outputs from all ways to feed them, less those that cannot be had."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.estimator.exporters import signature_defs
from tpack.estimator.inputs import ServingInputReceiver
from tpack.estimator.spec import PredictOutput, RegressionOutput


def test_outputs_times_feeds(graph):
    value, examples = tf.constant([1.0], name="value"), tf.placeholder(tf.string, [None], name="examples")
    receiver = ServingInputReceiver(value, {"x": value}, {"examples": examples})
    outputs = {"serving_default": PredictOutput({"p": value}), "regress": RegressionOutput(value)}
    with captured_log() as lines:
        signatures = signature_defs(receiver, outputs)
    assert set(signatures) == {
        "serving_default", "predict", "serving_default:examples", "predict:examples", "regress:examples"
    }  # fmt: skip
    assert signatures["predict"] == signatures["serving_default"]
    assert signatures["predict:examples"].inputs["input"].name == "examples:0"
    assert [line for line in lines if line.startswith("Not exported: regress: RegressionOutput")] == lines


def test_an_output_called_predict_stays(graph):
    first, second = tf.constant(1.0, name="first"), tf.constant(1.0, name="second")
    outputs = {"serving_default": PredictOutput(first), "predict": PredictOutput(second)}
    signatures = signature_defs(ServingInputReceiver(first, first), outputs)
    assert signatures["predict"].outputs["output"].name == "second:0"


def test_a_model_that_cannot_be_served_is_refused(graph):
    value = tf.constant([1.0])
    with pytest.raises(ConfigError, match="no possible signature: serving_default: RegressionOutput got the"):
        signature_defs(ServingInputReceiver(value, value), {"serving_default": RegressionOutput(value)})
