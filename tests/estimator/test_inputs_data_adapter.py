"""What people have as data reaches a model_fn as features and labels, and what cannot be is an error in words."""

from functools import partial

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tests.helpers.foreign import FaceDataset, GrainDataset, Loader, MapStyle, StatefulLoader
from tests.helpers.log_lines import captured_log
from tpack.dataflow.arrays import DataFromArrays
from tpack.dataflow.batch import BatchData
from tpack.dataflow.parallel.threads import MultiThreadMapData
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import GivenInput, are_tensors, call_distributed_input_fn, call_input_fn, given_dataset
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate

X, Y = np.arange(24.0).reshape(12, 2), np.arange(12)
POINTS = [[X[k], k] for k in range(12)]


def generate(params=None):
    for k in range(3):
        yield X[4 * k : 4 * k + 4], Y[4 * k : 4 * k + 4]


def read(given, mode="eval", most=50):
    """Return what a session gets of an input until its end."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = call_input_fn(given, mode, params={}, config=None)
        session.run(inputs.initializer)
        wanted = inputs.features if inputs.labels is None else (inputs.features, inputs.labels)
        try:
            while len(found) < most:
                found.append(session.run(wanted))
        except tf.errors.OutOfRangeError:
            pass
        finally:
            if inputs.elements is not None:
                inputs.elements.close()
    return found


def eager():
    return tensorflow.data.Dataset.from_tensor_slices((X, Y))


PAIRS = {
    "arrays": ((X, Y), 4),
    "list": (POINTS, 4),
    "flow": (DataFromArrays((X, Y), shuffle=False), 4),
    "batches": (BatchData(DataFromArrays((X, Y), shuffle=False), 4), None),
    "generator function": (generate, None),
    "partial": (partial(generate, params=3), None),
    "dataset of eager mode": (eager(), 4),
    "dataset that a function makes": (lambda: tf.data.Dataset.from_tensor_slices((X, Y)), 4),
    "dataset of eager mode that a function returns": (lambda mode: eager(), 4),
    "arrays that a function returns": (lambda params: (X, Y), 4),
    "flow that a function returns": (lambda config: DataFromArrays((X, Y), shuffle=False), 4),
}


@pytest.mark.parametrize("name", PAIRS)
def test_features_and_labels_are_read_once_in_their_order(name):
    batches = read(GivenInput(*PAIRS[name]))
    assert [labels.tolist() for _, labels in batches] == [part.tolist() for part in np.split(Y, 3)]
    np.testing.assert_array_equal(np.concatenate([features for features, _ in batches]), X)


def assert_alike(found, wanted):
    """Compare nested arrays."""
    if isinstance(found, dict):
        assert found.keys() == wanted.keys()
        for key, part in found.items():
            assert_alike(part, wanted[key])
    elif isinstance(found, tuple):
        assert len(found) == len(wanted)
        for part, other in zip(found, wanted, strict=True):
            assert_alike(part, other)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("data", "size", "features"),
    [
        (X, 5, X[:5]),
        ({"x": X, "y": Y}, 5, {"x": X[:5], "y": Y[:5]}),
        (({"x": X, "words": np.array(["a", "bc"] * 6)}, Y), 2, ({"x": X[:2], "words": [b"a", b"bc"]}, Y[:2])),
        (((X, Y), Y), 2, ((X[:2], Y[:2]), Y[:2])),
        ([{"x": 1.5, "y": [1, 2]}] * 3, 2, {"x": [1.5, 1.5], "y": [[1, 2], [1, 2]]}),
        ([[1.5]] * 3, 2, [1.5, 1.5]),
        (MapStyle(), 2, {"x": [[0], [1]], "name": [b"0", b"1"]}),
        (Loader(), 2, ([[0, 0], [1, 1]], [0, 1])),
        (StatefulLoader(), None, ([2, 2], 2)),
        (FaceDataset(), 2, {"x": [1, 2], "y": [[1, 2], [1, 2]]}),
        (GrainDataset(), 2, {"x": [1, 2]}),
        ([([np.ones(2), np.ones(3)], 1)], None, (([1, 1], [1, 1, 1]), 1)),
    ],
)
def test_what_points_are_made_of_becomes_what_the_model_gets(data, size, features):
    found = read(GivenInput(data, size), most=1)[0]
    if isinstance(data, StatefulLoader):
        assert found[0].tolist() == [found[1]] * 2
        return
    assert_alike(found, features)


def test_prediction_looks_at_features_only_and_at_all_rows():
    for data in ((X, Y), X, [(x, 1, 2) for x in X]):
        parts = read(GivenInput(data, 5), "infer")
        assert [len(part) for part in parts] == [5, 5, 2]
        np.testing.assert_array_equal(np.concatenate(parts), X)


def test_training_takes_whole_batches_in_new_orders_and_may_go_on():
    once = [labels for _, labels in read(GivenInput((X, Y), 5), "train")]
    assert [len(labels) for labels in once] == [5, 5]
    assert len(read(GivenInput((X, Y), 5, is_repeated=True), "train", most=9)) == 9
    assert len(read(GivenInput(eager(), 5, is_repeated=True), "train", most=9)) == 9
    # A Dataset that an input_fn made is taken as it is.
    assert len(read(GivenInput(eager, 5, is_repeated=True), "train")) == 2
    assert len(read(GivenInput(lambda: (X, Y), 5, is_repeated=True), "train", most=9)) == 9


def test_types_and_shapes_are_told():
    with tf.Graph().as_default(), captured_log() as lines:
        features, labels = tf.data.get_output_shapes(given_dataset(GivenInput((X, Y), 4), is_training=True).dataset)
    assert (features.as_list(), labels.as_list()) == ([None, 2], [None])
    assert "The input is arrays: features float32 (None, 2), labels int64 (None,)" in lines


def test_towers_of_a_strategy_share_the_examples_of_a_step(session8):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    inputs = call_distributed_input_fn(GivenInput((X, Y), 6), "eval", strategy, params=None, config=None)
    session8.run(inputs.initializer)
    parts = session8.run([inputs.labels.get(device) for device in strategy.worker_devices])
    inputs.elements.close()
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ConfigError, match="got batch_size=5: expected a multiple of 2"):
        call_distributed_input_fn(GivenInput((X, Y), 5), "eval", strategy, params=None, config=None)


def linear(features, labels, mode):
    """A model of one weight."""
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    values = tf.reduce_sum(features, -1) * weight
    loss = None if labels is None else tf.reduce_mean(tf.square(values - tf.cast(labels, tf.float32)))
    step = tf.train.get_or_create_global_step()
    train_op = None
    if mode == "train":
        with tf.control_dependencies([loss]):
            train_op = tf.group(weight.assign_add(0.5), step.assign_add(1))
    return EstimatorSpec(mode, {"values": values}, loss, train_op)


def double(point):
    return [2 * point[0], point[1]]


def test_estimator_trains_evaluates_and_predicts(tmp_path):
    estimator = Estimator(linear, str(tmp_path))
    # Its threads are gone afterwards, or the check for leaks fails this test.
    flow = MultiThreadMapData(DataFromArrays((X, Y)), 2, double, buffer_size=4)
    results, _ = train_and_evaluate(
        estimator, TrainSpec(flow, max_steps=2, batch_size=4), EvalSpec((X, Y), batch_size=5, steps=None)
    )
    estimator.train((X, Y), batch_size=6)
    assert results["loss"] == pytest.approx(
        np.mean([np.square(X[k : k + 5].sum(-1) - Y[k : k + 5]).mean() for k in (0, 5, 10)])
    )
    rows = list(estimator.predict(X, batch_size=5))
    assert [row["values"] for row in rows] == (2 * X.sum(-1)).tolist()


def different():
    yield X[:4], Y[:4]
    yield X[:4, :1], Y[:4]


def breaks():
    yield X[:4], Y[:4]
    raise OSError("the disk is gone")


def test_errors_in_the_middle_are_those_of_the_data(tmp_path):
    estimator = Estimator(linear, str(tmp_path)).train((X, Y), batch_size=6)
    with pytest.raises(
        DataPointError, match=r"data point 1 of a generator function.*'features'.*\(4, 1\), expected \(None, 2\)"
    ):
        estimator.evaluate(different)
    with pytest.raises(InputError, match="raised OSError at data point 1: the disk is gone") as caught:
        estimator.evaluate(breaks)
    assert isinstance(caught.value.__cause__, OSError)


def none():
    yield from ()


def raises():
    raise OSError("the disk is gone")
    yield


@pytest.mark.parametrize(
    ("data", "size", "kind", "message"),
    [
        ((X, Y), None, ConfigError, "got the arrays .* without a batch size: expected batch_size"),
        (({"x": X}, Y), None, ConfigError, "got the arrays .* without a batch size: expected batch_size"),
        (lambda: (X, Y), None, ConfigError, "got the arrays .* without a batch size: expected batch_size"),
        ((X, Y), 0, ConfigError, "batch_size=0: expected an integer of at least 1"),
        ((X, Y), 13, ConfigError, "batch_size=13: expected at most 12"),
        (BatchData(DataFromArrays((X, Y)), 4), 4, ConfigError, "makes batches of 4 itself: leave one of the two out"),
        (lambda: tf.zeros([3]), 4, ConfigError, "got batch_size=4: expected None where input_fn returns tensors"),
        ("data.csv", None, ConfigError, r"the data are 'data.csv': expected a DataFlow, arrays such as \(x, y\)"),
        (lambda: 3, None, ConfigError, r"the data are 3: expected a DataFlow, arrays such as \(x, y\)"),
        (generate(), None, ConfigError, "an iterator: expected an iterable; use the generator function"),
        (lambda: generate(), None, ConfigError, "an iterator: expected an iterable; use the generator function"),
        ([(1, 2, 3)], 1, DataPointError, r"has 3 components: expected features, or features and labels.*MapData\(flow"),
        ([[]], 1, DataPointError, "has 0 components: expected features"),
        ([[object()]], 1, DataPointError, "features of the first data point of list is .*object.*: expected numbers"),
        ([[[[1], [2, 3]]]], 1, DataPointError, "features of a data point is .*, not an array"),
        (none, None, DataExhaustedError, "a generator function has no data point"),
        (raises, None, InputError, "a generator function raised OSError at its first data point: the disk is gone"),
    ],
)
def test_what_cannot_be_read_is_refused(data, size, kind, message):
    with tf.Graph().as_default(), pytest.raises(kind, match=message):
        call_input_fn(GivenInput(data, size), "train", params={}, config=None)


def test_points_that_are_made_up_in_another_way_are_refused():
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = call_input_fn(GivenInput([{"x": 1}, {"y": 1}], 1), "eval", params={}, config=None)
        session.run(inputs.initializer)
        session.run(inputs.features)
        with pytest.raises(tf.errors.OpError):
            session.run(inputs.features)
        assert "has the structure {'y': \"features['y']\"}: expected that of" in str(inputs.elements.failure())
        inputs.elements.close()


def test_a_dataset_of_another_graph_is_refused():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
    with (
        tf.Graph().as_default(),
        pytest.raises(ConfigError, match="belongs to another graph; use an input_fn that creates it"),
    ):
        call_input_fn(GivenInput(dataset), "train", params={}, config=None)


def test_tensors_are_told_from_data(graph):
    zeros = tf.zeros([2])
    for result in (None, (), (None, 1), zeros, (zeros, zeros), {"x": zeros}, ({"x": zeros}, None), [zeros, 3]):
        assert are_tensors(result)
    for result in ((X, Y), POINTS, generate, {"x": X}, 3):
        assert not are_tensors(result)
