"""Predictions come one example, or one batch, at a time."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import ConfigError
from tpack.estimator.building import ModelParts, build_model
from tpack.estimator.inputs import GivenInput, call_input_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.session import chosen_predictions, each_example, predict_model
from tpack.estimator.spec import EstimatorSpec


def scaling(features, mode):
    return EstimatorSpec(mode, {"scaled": tf.get_variable("scale", []) * tf.cast(features, tf.float32)})


def predict(directory, data, hooks=()):
    checkpoint = save_checkpoint(directory, {"scale": 2.0, "global_step": np.int64(30)})
    parts = ModelParts(scaling, None, RunConfig(), str(directory))

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(data).batch(2)

    with tf.Graph().as_default():
        built = build_model(
            parts, "infer", lambda: call_input_fn(GivenInput(input_fn), "infer", params=None, config=None)
        )
    return predict_model(parts, built, checkpoint, built.spec.predictions, hooks)


def test_batches_to_the_end_of_the_data(tmp_path):
    assert [values["scaled"].tolist() for values in predict(tmp_path, [1, 2, 3])] == [[2, 4], [6]]


def test_nothing_stays_the_default_between_two(graph, tmp_path):
    first, second = predict(tmp_path, [1, 2, 3]), predict(tmp_path, [4])
    assert next(first)["scaled"].tolist() == [2, 4]
    assert next(second)["scaled"].tolist() == [8]
    assert tf.get_default_graph() is graph
    assert tf.get_default_session() is None
    second.close()
    assert [values["scaled"].tolist() for values in first] == [[6]]


def test_hooks_stop_it(tmp_path):
    class Stop(tf.train.SessionRunHook):
        ended = False

        def after_run(self, run_context, run_values):
            assert tf.get_default_session() is run_context.session
            run_context.request_stop()

        def end(self, session):
            self.ended = True

    hook = Stop()
    assert len(list(predict(tmp_path, [1, 2, 3], [hook]))) == 1
    assert hook.ended


def test_keys_choose(graph):
    a, b = tf.constant(1), tf.constant(2)
    assert chosen_predictions({"a": a, "b": b}, None) == {"a": a, "b": b}
    assert chosen_predictions({"a": a, "b": b}, "b") == {"b": b}
    assert chosen_predictions({"a": a, "b": b}, ["a", "c"]) == {"a": a}
    assert chosen_predictions(a, None) is a
    with pytest.raises(ConfigError, match="predict got predict_keys='c': expected one or more of a, b"):
        chosen_predictions({"a": a, "b": b}, "c")
    with pytest.raises(ConfigError, match="expected a dict"):
        chosen_predictions(a, ["a"])


def test_examples_of_a_batch():
    a, b = np.arange(4).reshape(2, 2), np.array([5, 6])
    assert [(row["a"].tolist(), row["b"]) for row in each_example({"a": a, "b": b})] == [([0, 1], 5), ([2, 3], 6)]
    assert list(each_example(b)) == [5, 6]
    for values in ({"a": a, "b": np.arange(3)}, np.float32(3)):
        with pytest.raises(ConfigError, match="predict got predictions of the shapes .*yield_single_examples=False"):
            list(each_example(values))
