"""Data points against a signature: what is taken, and errors that name the data point and its origin."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE
from tpack.errors import DataPointError
from tpack.input_source.spec_check import DataPointChecker


@pytest.fixture
def checker():
    return DataPointChecker(SIGNATURE, "the test")


@pytest.mark.parametrize("kind", [list, tuple, lambda pair: {"label": pair[1], "image": pair[0]}])
def test_components_come_in_the_order_of_the_signature(checker, kind):
    image, label = checker.check(kind([[[1.0, 2.0]], 5]), 0)
    np.testing.assert_array_equal(image, [[1.0, 2.0]])
    assert label == 5
    assert checker.dtypes == [np.float32, np.int32]


@pytest.mark.parametrize(
    ("data_point", "message"),
    [
        ([1], r"it has 1 components, expected 2 components \(image, label\)"),
        ([1, 2, 3], "it has 3 components, expected 2"),
        (np.zeros([2, 2]), "it is a ndarray, expected a list, tuple or dict of 2 components"),
        (
            {"image": 0, "lable": 1},
            r"a dict with the keys \['image', 'lable'\], expected 2 components \(image, label\)",
        ),
        ([[1.0], 1], r"component 0 \('image'\) has rank 1"),
        ([[[1.0, 2.0]], 1.5], r"component 1 \('label'\) has dtype float64"),
    ],
)
def test_an_error_names_data_point_and_origin(checker, data_point, message):
    with pytest.raises(DataPointError, match=f"^data point 17 of the test: .*{message}"):
        checker.check(data_point, 17)


def test_a_batch_without_rows_is_refused(checker):
    checker = DataPointChecker(
        [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")], "it"
    )
    with pytest.raises(DataPointError, match=r"^data point 3 of it: it has no rows: image \(0, 2\), label \(0,\)"):
        checker.check([np.zeros([0, 2]), []], 3)
    # An image without boxes has pixels.
    boxes, label = checker.check([np.zeros([0, 2]), [1]], 3)
    assert (boxes.shape, label.tolist()) == ((0, 2), [1])


def test_the_cause_is_kept(checker):
    with pytest.raises(DataPointError, match="makes no array") as caught:
        checker.check([[[1.0], [2.0, 3.0]], 1], 0)
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_empty_signature_takes_empty_data_points():
    assert DataPointChecker([], "the test").check([], 0) == []
