"""Input functions give Datasets or tensors, of features alone or with labels."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import ConfigError
from tpack.estimator.inputs import GivenInput, call_distributed_input_fn, call_input_fn, warn_if_endless


def call(input_fn, mode="train"):
    return call_input_fn(GivenInput(input_fn), mode, params={"size": 2}, config="config")


def test_datasets_with_and_without_labels(session8):
    def make(mode, params):
        data = {"x": np.arange(4)}, np.arange(4) + 10
        dataset = tf.compat.v2.data.Dataset.from_tensor_slices(data if mode == "train" else data[0])
        return dataset.batch(params["size"])

    both, alone = call(make), call(make, "infer")
    session8.run([both.initializer, alone.initializer])
    features, labels = session8.run((both.features, both.labels))
    assert (features["x"].tolist(), labels.tolist()) == ([0, 1], [10, 11])
    assert session8.run(alone.features)["x"].tolist() == [0, 1]
    assert alone.labels is None


def test_tensors(graph):
    x, y = tf.zeros([2]), tf.ones([2])
    for given, features, labels in [(x, x, None), ((x, y), x, y), ([x, y], x, y), ({"x": x}, {"x": x}, None)]:
        inputs = call(lambda given=given: given)
        assert inputs.features == features if isinstance(features, dict) else inputs.features is features
        assert inputs.labels is labels
        assert inputs.initializer is None


def test_prediction_keeps_features_that_are_a_pair(graph):
    words, lengths, labels = tf.zeros([2, 3]), tf.ones([2]), tf.ones([2, 3])

    inputs = call(lambda: ((words, lengths), labels), "infer")

    assert inputs.features == (words, lengths)
    assert inputs.labels is None


def test_prediction_looks_at_features_only(graph):
    x, y = tf.zeros([2]), tf.ones([2])
    for given in ((x,), [x, y], (x, y, y)):
        inputs = call(lambda given=given: given, "infer")
        assert inputs.features is x
        assert inputs.labels is None


def test_input_is_on_the_cpu(graph):
    inputs = call(lambda config: tf.constant(len(config)))
    assert inputs.features.device == "/device:CPU:0"


def test_towers_of_a_strategy_take_turns(session8):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])

    def make(size):
        data = {"x": np.arange(size)}, np.arange(size) + 10
        return lambda: tf.data.Dataset.from_tensor_slices(data)

    inputs = call_distributed_input_fn(GivenInput(make(5)), "train", strategy, params=None, config=None)
    session8.run(inputs.initializer)
    assert session8.run(inputs.num_left) == 1
    parts = [(inputs.features["x"].get(device), inputs.labels.get(device)) for device in strategy.worker_devices]
    assert [session8.run(parts) for _ in range(2)] == [[(0, 10), (1, 11)], [(2, 12), (3, 13)]]
    with pytest.raises(tf.errors.OutOfRangeError):
        session8.run(parts)
    repeated = GivenInput(lambda: make(3)().repeat())
    endless = call_distributed_input_fn(repeated, "train", strategy, params=None, config=None)
    assert session8.run(endless.num_left) == -1
    with pytest.raises(ConfigError, match="under a distribution strategy: expected a tf.data.Dataset"):
        call_distributed_input_fn(GivenInput(lambda: tf.zeros([1])), "train", strategy, params=None, config=None)


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ConfigError, match="got the arrays .* without a batch size: expected batch_size"):
        call(np.zeros(3))
    for number in (1, 3):
        with pytest.raises(ConfigError, match=f"input_fn returned a tuple of {number}: expected features, or a pair"):
            call(lambda number=number: (tf.zeros([1]),) * number)
    with pytest.raises(ConfigError, match=r"input_fn returned \(\): expected features, or a pair"):
        call(lambda: (), "infer")


@pytest.mark.parametrize("kind", ["dataset", "iterator", "queue", "tensors"])
def test_input_without_an_end_is_warned_of(graph, kind):
    def make():
        dataset = tf.data.Dataset.range(3)
        if kind == "dataset":
            return dataset
        if kind == "iterator":
            return tf.data.make_one_shot_iterator(dataset).get_next()
        if kind == "queue":
            return tf.train.input_producer([1, 2]).dequeue()
        return tf.constant(1)

    with captured_log() as lines:
        warn_if_endless(call(make), "the evaluation")
    assert [line for line in lines if "neither it nor the evaluation ends" in line] == lines
    assert len(lines) == (kind == "tensors")


@pytest.mark.parametrize(
    ("input_fn", "message"),
    [
        (lambda: None, "input_fn returned None: expected a Dataset"),
        (lambda: (None, 1), "input_fn returned None as the features: expected a Dataset"),
        (5, r"the data are 5: expected a DataFlow, arrays such as \(x, y\)"),
    ],
)
def test_an_input_fn_that_returns_nothing_is_told_so(graph, input_fn, message):
    with pytest.raises(ConfigError, match=message):
        call(input_fn)
