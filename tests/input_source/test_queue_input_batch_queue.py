"""Single data points come out as batches, each tower's complete and in order."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import running
from tpack.dataflow import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, InputError
from tpack.input_source import BatchQueueInput

SIGNATURE = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def points(number=5):
    return DataFromList([[np.full([2], k), k] for k in range(number)], shuffle=False)


@pytest.mark.parametrize("num_towers", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_towers_take_successive_batches(graph, num_towers, batch_size):
    with running(BatchQueueInput(points(), batch_size), SIGNATURE, num_towers=num_towers) as run:
        for _ in range(2):
            batches = [tower for _ in range(3) for tower in run.step()]
            labels = np.concatenate([label for _, label in batches])
            np.testing.assert_array_equal(labels, np.arange(3 * num_towers * batch_size) % 5)
            for image, label in batches:
                np.testing.assert_array_equal(image, np.stack([label, label], axis=1))
            run.source.reset_state()


def test_static_shape_has_the_batch_size(graph):
    source = BatchQueueInput(points(), 4)
    source.setup(SIGNATURE)
    assert [tensor.shape.as_list() for tensor in source.get_input_tensors()] == [[4, 2], [4]]


def test_dimensions_of_tensorflow_1_are_understood(graph):
    tf.disable_v2_tensorshape()
    try:
        source = BatchQueueInput(points(), 4)
        source.setup(SIGNATURE)
        assert source.get_input_tensors()[0].shape.as_list() == [4, 2]
    finally:
        tf.enable_v2_tensorshape()


def test_size_counts_whole_batches():
    assert BatchQueueInput(points(), 2).size() == 2


def test_a_rest_that_fills_no_batch_ends_with_the_error(graph):
    def generate():
        yield from points(5)
        raise KeyError("gone")

    with running(BatchQueueInput(DataFromGenerator(generate), 2), SIGNATURE) as run:
        assert [run.step()[0][1].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(InputError, match="raised KeyError at data point 5"):
            run.step()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (None, "needs a batch dimension and knows all others, got the shape <unknown>"),
        ([], r"needs a batch dimension and knows all others, got the shape \(\)"),
        ([None, None], "needs a batch dimension and knows all others"),
        ([3, 2], "makes batches of 4, the signature expects"),
    ],
)
def test_a_signature_that_makes_no_batches_is_an_error(graph, shape, message):
    with pytest.raises(ConfigError, match=message):
        BatchQueueInput(points(), 4).setup([tf.TensorSpec(shape, tf.float32, "x")])


def test_a_batch_size_of_zero_is_an_error():
    with pytest.raises(ConfigError, match="BatchQueueInput got batch_size=0: expected an integer of at least 1"):
        BatchQueueInput(points(), 0)
