"""Arrays and data frames become batches: in what order, of which shapes, and what is refused."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import devices
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import ConfigError, DependencyError, WrongTypeError
from tpack.tf1.estimator.inputs import numpy_input_fn, pandas_input_fn

X = np.arange(5)


def batches(input_fn, most=20):
    """Return what a session gets of an input_fn until its end."""
    with tf.Graph().as_default(), tf.Session() as session:
        tensors, found = input_fn(), []
        session.run(tf.tables_initializer())
        while len(found) < most:
            try:
                found.append(session.run(tensors))
            except tf.errors.OutOfRangeError:
                break
        return found


def test_batches_go_on_over_epochs_and_the_last_is_smaller():
    found = batches(numpy_input_fn({"x": X}, 10 * X, batch_size=3, num_epochs=2, shuffle=False))
    assert [features["x"].tolist() for features, _ in found] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4]]
    assert [labels.tolist() for _, labels in found] == [[0, 10, 20], [30, 40, 0], [10, 20, 30], [40]]
    plain = batches(numpy_input_fn(X, batch_size=7, num_epochs=2, shuffle=False))
    assert [batch.tolist() for batch in plain] == [[0, 1, 2, 3, 4, 0, 1], [2, 3, 4]]


def test_without_end_batches_are_whole_and_shuffled_ones_hold_each_epoch():
    words = np.array(["a", "b", "c", "d", "e"], object)
    endless = numpy_input_fn({"x": X}, {"w": words}, batch_size=5, num_epochs=None, shuffle=True)
    found = batches(endless, 4)
    assert len(found) == 4
    for features, labels in found:
        assert sorted(features["x"]) == X.tolist()
        assert labels["w"].astype(str).tolist() == words[features["x"]].tolist()
    with tf.Graph().as_default():
        features, labels = endless()
        assert (features["x"].shape, labels["w"].dtype) == ([5], tf.string)


def test_under_a_strategy_it_is_a_dataset(graph):
    with MirroredStrategy(devices(2)).scope():
        assert isinstance(numpy_input_fn(X, shuffle=False)(), tf.compat.v2.data.Dataset)


def test_wrong_arrays_are_refused():
    cases = [
        ({"x": X}, X, None, ConfigError, "expected True to train, or False to evaluate and to predict"),
        ({"x": X}, X[:3], False, ConfigError, r"got x and y of \{'x': 5, 'y': 3\} examples: expected one number"),
        ({}, X, False, ConfigError, r"got x=\{\}: expected at least one array"),
        ({"x": X}, {}, False, ConfigError, r"got y=\{\}: expected at least one array"),
        ({"x": X}, {"x": X}, False, ConfigError, "got a feature and a label of one name, x: expected different names"),
        ({"x": [1, 2]}, None, False, WrongTypeError, "expected an array or a dict of arrays"),
        (X[:0], None, False, ConfigError, "got x without examples: expected at least one"),
    ]
    for x, y, shuffle, error, message in cases:
        with pytest.raises(error, match=message):
            numpy_input_fn(x, y, shuffle=shuffle)
    with pytest.raises(ConfigError, match="num_epochs=0"):
        numpy_input_fn(X, num_epochs=0, shuffle=False)


class Series:
    """As much of a column of pandas as is looked at."""

    def __init__(self, values, index):
        self.values, self.index = (
            np.asarray(values),
            SimpleNamespace(equals=lambda other: other.rows == index, rows=index),
        )

    def to_numpy(self):
        return self.values


class DataFrame:
    """As much of a data frame of pandas as is looked at."""

    def __init__(self, columns, index):
        self._made = {name: Series(values, index) for name, values in columns.items()}
        self.columns, self.index = list(columns), next(iter(self._made.values())).index

    def __getitem__(self, name):
        return self._made[name]


@pytest.fixture
def frame(monkeypatch):
    pandas = ModuleType("pandas")
    pandas.DataFrame, pandas.Series = DataFrame, Series
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    return DataFrame({"p": [1.0, 2.0, 3.0], "q": np.array(["a", "b", "c"], object)}, [5, 6, 7])


def test_columns_of_a_data_frame_are_features(frame):
    ((features, labels),) = batches(pandas_input_fn(frame, Series([1, 0, 1], [5, 6, 7]), shuffle=False))
    assert (features["p"].tolist(), features["q"].astype(str).tolist()) == ([1, 2, 3], ["a", "b", "c"])
    assert labels.tolist() == [1, 0, 1]
    (alone,) = batches(pandas_input_fn(frame, shuffle=False))
    assert alone.keys() == {"p", "q"}
    ((_, named),) = batches(pandas_input_fn(frame, DataFrame({"y": [1, 2, 3]}, [5, 6, 7]), shuffle=False))
    assert named["y"].tolist() == [1, 2, 3]


def test_wrong_data_frames_are_refused(frame, monkeypatch):
    with pytest.raises(WrongTypeError, match="got x=a dict of 1: expected a DataFrame"):
        pandas_input_fn({"p": X}, shuffle=False)
    with pytest.raises(WrongTypeError, match="expected a Series or a DataFrame"):
        pandas_input_fn(frame, X, shuffle=False)
    with pytest.raises(ConfigError, match="got x and y of different indexes: expected the same index"):
        pandas_input_fn(frame, Series([1, 0, 1], [1, 2, 3]), shuffle=False)
    with pytest.raises(ConfigError, match="expected another name than that of a feature"):
        pandas_input_fn(frame, Series([1, 0, 1], [5, 6, 7]), shuffle=False, target_column="p")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DependencyError, match="expected it to be installed; use pip install pandas"):
        pandas_input_fn(frame, shuffle=False)
