"""What people have as data: each kind trains, and what cannot be taken is an error that names the way."""

from functools import partial

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tests.helpers.foreign import Loader
from tests.helpers.run_input import running
from tpack.compat.runtime import eager_mode
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, WrongTypeError
from tpack.input_source.data_adapter import GivenData
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.queue_input import QueueInput

X, Y = np.arange(24, dtype=np.float32).reshape(12, 2), np.arange(12, dtype=np.int32)
POINTS = [[X[k], k] for k in range(12)]
SIGNATURE = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def generate(stop=12):
    yield from POINTS[:stop]


def eager():
    return tensorflow.data.Dataset.from_tensor_slices((X, Y))


class Rows:
    """A data set as PyTorch has them."""

    def __len__(self):
        return len(POINTS)

    def __getitem__(self, index):
        return POINTS[index]


class Lists(Rows):
    """A data set as Hugging Face has them."""

    def __getitem__(self, index):
        return {"image": X[index].tolist(), "label": index}


EXAMPLES = {
    "arrays": lambda: (X, Y),
    "arrays by name": lambda: {"label": Y, "image": X},
    "list": lambda: POINTS,
    "flow": lambda: DataFromList(POINTS, shuffle=False),
    "generator function": lambda: generate,
    "partial generator function": lambda: partial(generate, stop=12),
    "dataset of eager mode": eager,
    "function that makes a dataset": lambda: lambda: tf.data.Dataset.from_tensor_slices((X, Y)),
    "indexed": Rows,
    "indexed, of lists": Lists,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_make_the_batches_of_two_towers(name):
    given = GivenData(EXAMPLES[name](), 6)
    given.fit_to_towers(2)
    with tf.Graph().as_default(), running(given.source, SIGNATURE, num_towers=2) as run:
        for _ in range(2):
            passes = [run.step() for _ in range(2)]
            labels = [label for step in passes for _, batch in step for label in batch]
            images = np.concatenate([image for step in passes for image, _ in step])
            assert all(batch.shape == (3,) for step in passes for _, batch in step)
            assert sorted(labels) == Y.tolist()
            assert images.tolist() == X[labels].tolist()
            assert name in ("arrays", "arrays by name", "list") or labels == Y.tolist()


@pytest.mark.parametrize("name", ["arrays", "list", "flow", "dataset of eager mode", "indexed"])
def test_the_number_of_steps_of_a_pass_is_known(name):
    with tf.Graph().as_default():
        given = GivenData(EXAMPLES[name](), 4)
        assert given.source.steps_of_pass(1) == 3
        given.fit_to_towers(2)
        assert given.source.steps_of_pass(2) == 3
        assert given.source.samples() == (2, 12)


BATCHES = {
    "loader": Loader,
    "flow": lambda: BatchData(DataFromList(POINTS), 3),
    "dataset": lambda: tensorflow.data.Dataset.range(3).batch(2),
}


@pytest.mark.parametrize("name", BATCHES)
def test_what_makes_batches_is_taken_as_it_is(name):
    source = GivenData(BATCHES[name]()).source
    assert isinstance(source, TFDatasetInput if name == "dataset" else QueueInput)
    assert source.samples()[0] == (3 if name == "flow" else None)


class LoaderOfBatches(Loader):
    batch_size = 5


@pytest.mark.parametrize(("data", "size"), [(BatchData(DataFromList(POINTS), 3), 3), (LoaderOfBatches(), 5)])
def test_batches_of_batches_are_refused(data, size):
    with pytest.raises(ConfigError, match=rf"batch_size=4 was given, and the .* makes batches of {size} itself: leave"):
        GivenData(data, 4)


@pytest.mark.parametrize("data", [(X, Y), {"x": X}, X])
def test_arrays_need_a_batch_size(data):
    with pytest.raises(ConfigError, match=r"their rows are examples: say how many of them a step takes.*by batch_size"):
        GivenData(data)


@pytest.mark.parametrize("data", [3, "data.csv", {"x": 3}, Rows, None])
def test_anything_else_is_refused_with_what_is_taken(data):
    if isinstance(data, set):
        data = map(list, data)
    with pytest.raises(
        ConfigError, match=r"expected a DataFlow, arrays such as \(x, y\)|an iterator: expected an iterable"
    ):
        GivenData(data, 4)


def test_examples_that_towers_cannot_share_are_refused():
    given = GivenData((X, Y), 4)
    with pytest.raises(ConfigError, match="batch_size got 4, .* expected a multiple of 3"):
        given.fit_to_towers(3)
    assert issubclass(WrongTypeError, ConfigError)


def test_arrays_beside_lists_are_refused_since_a_list_is_one_of_examples():
    with pytest.raises(ConfigError, match=r"a tuple of 2, of which some are arrays and some are lists.*np\.asarray"):
        GivenData((np.zeros([4, 2]), [0, 1, 0, 1]), 2)


@pytest.mark.parametrize("where", ["graph", "eager"])
def test_tensors_are_no_arrays(where):
    with eager_mode() if where == "eager" else tf.Graph().as_default():
        x, y = tf.constant(X), tf.constant(Y)
        for data in ((x, y), {"image": x}, x):
            with pytest.raises(WrongTypeError, match="with tensors: expected arrays; use"):
                GivenData(data, 4)


def test_fewer_examples_than_a_batch_are_refused_by_their_number():
    with pytest.raises(
        ConfigError, match="batch_size got 13: expected at most 12, the examples of the data; use batch"
    ):
        GivenData((X, Y), 13)
    with pytest.raises(ConfigError, match="the data are empty: expected examples for batches of batch_size=4"):
        GivenData((X[:0], Y[:0]), 4)
    assert len(GivenData((X, Y), 13, is_once=True).flow) == 1
