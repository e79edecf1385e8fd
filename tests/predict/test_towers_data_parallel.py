"""One batch on several devices: the rows of any batch come back in order, whatever its size."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.predict_models import make_config, scores
from tpack.errors import ConfigError, DataPointError
from tpack.predict import DataParallelOfflinePredictor, OfflinePredictor


@pytest.fixture(scope="module")
def predictor():
    predictor = DataParallelOfflinePredictor(make_config(), 4)
    yield predictor
    predictor.sess.close()


@pytest.fixture(scope="module")
def single():
    predictor = OfflinePredictor(make_config())
    yield predictor
    predictor.sess.close()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 6, 7, 8, 11])
def test_rows_are_those_of_one_tower_that_gets_the_same_parts(predictor, single, rng, size):
    image = rng.normal(size=(size, 3)).astype("float32")
    (result,) = predictor(image, 0.5)
    parts = np.array_split(image, min(max(size, 1), 4))
    expected = np.concatenate([single(part, 0.5)[0] for part in parts])
    assert result.tobytes() == expected.tobytes()
    assert result.shape == (size, 2)
    np.testing.assert_allclose(result, scores(image, 0.5), rtol=1e-5)


def test_all_towers_work(predictor):
    devices = [predictor.graph.get_operation_by_name(f"tower{k}/MatMul").device for k in range(4)]
    assert devices == [f"/device:CPU:{k}" for k in range(4)]


def test_the_input_can_be_returned():
    predictor = DataParallelOfflinePredictor(make_config(return_input=True), 2)
    with predictor.sess:
        (image, factor), (result,) = predictor(np.ones([3, 3]), 2.0)
    assert (image.shape, factor, result.shape) == ((3, 3), 2.0, (3, 2))


@pytest.mark.parametrize(
    ("dp", "message"),
    [
        ((np.ones([2, 3]),), r"DataParallelOfflinePredictor got 1 inputs: expected 2 \(image, factor\)"),
        ((np.ones([2, 4]), 1.0), r"input 0 \('image'\) has shape \(2, 4\), expected \(None, 3\)"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(predictor, dp, message):
    with pytest.raises(DataPointError, match=message):
        predictor(*dp)


def pair(x, y):
    return tf.add(x, y, name="sum")


def vectors(*shapes):
    return [tf.TensorSpec(shape, tf.float32, name) for shape, name in zip(shapes, "xy", strict=False)]


def never_empty(x):
    """A model that cannot work on nothing."""
    with tf.control_dependencies([tf.debugging.assert_positive(tf.size(x))]):
        return tf.identity(x, name="same")


def test_towers_without_a_row_do_not_run():
    config = make_config(
        tower_func=never_empty, input_signature=vectors([None]), output_names=["same"], session_init=None
    )
    predictor = DataParallelOfflinePredictor(config, 3)
    with predictor.sess:
        for size in (1, 2, 4):
            np.testing.assert_array_equal(predictor(np.arange(size)), [np.arange(size)])


def test_batches_of_different_sizes_are_an_error():
    config = make_config(
        tower_func=pair, input_signature=vectors([None], [None]), output_names=["sum"], session_init=None
    )
    predictor = DataParallelOfflinePredictor(config, 2)
    with predictor.sess:
        with pytest.raises(DataPointError, match=r"inputs of different batch sizes: \[3, 4\]"):
            predictor(np.ones(3), np.ones(4))
        np.testing.assert_array_equal(predictor([1, 2, 3], [4, 5, 6])[0], [5, 7, 9])


def test_an_output_without_the_batch_is_an_error():
    predictor = DataParallelOfflinePredictor(make_config(output_names=["scores", "weight"]), 2)
    with predictor.sess, pytest.raises(DataPointError, match=r"output tower0/weight:0 .* for 2 rows .*\(3, 2\)"):
        predictor(np.ones([4, 3]), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_names": ["total"]}, "cannot join the output tower0/total:0: it is a scalar"),
        ({"input_names": ["factor"]}, "nothing to split: all its inputs are scalars"),
        (
            {"tower_func": pair, "input_signature": vectors([8], [8]), "output_names": ["sum"]},
            r"cannot split the input tower0/x:0 of shape \(8,\)",
        ),
        (
            {"tower_func": pair, "input_signature": vectors(None, [None]), "output_names": ["sum"]},
            "cannot split the input tower0/x:0 of shape <unknown>",
        ),
    ],
)
def test_models_that_cannot_be_split_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        DataParallelOfflinePredictor(make_config(**options), 2)


def test_only_a_config_will_do():
    with pytest.raises(ConfigError, match="DataParallelOfflinePredictor got config=None: expected a PredictConfig"):
        DataParallelOfflinePredictor(None, 2)
