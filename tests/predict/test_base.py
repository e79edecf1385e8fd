"""The contract of predictors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.predict_models import make_config, scores
from tpack.predict import DataParallelOfflinePredictor, MultiTowerOfflinePredictor, OfflinePredictor, PredictorBase
from tpack.predict.base import make_predict_function


class Doubling(PredictorBase):
    def _do_call(self, dp):
        return [2 * value for value in dp]


def test_call_returns_outputs_or_both():
    predictor = Doubling()
    assert predictor(1, 2) == [2, 4]
    predictor.return_input = True
    assert predictor(1, 2) == ((1, 2), [2, 4])


def test_what_is_not_overridden_says_so():
    with pytest.raises(NotImplementedError, match="PredictorBase does not override _do_call"):
        PredictorBase()(1)


def test_values_are_in_the_order_of_the_outputs(session8):
    x, y = tf.placeholder(tf.float32, [2], name="x"), tf.placeholder(tf.int32, [], name="y")
    total = tf.reduce_sum(x)
    for outputs, expected in (
        ([total], [3.0]),
        ([y, total, x], [7, 3.0, [1, 2]]),
        ([x, x], [[1, 2], [1, 2]]),
        ([], []),
    ):
        values = make_predict_function(session8, [x, y], outputs)(np.array([1, 2], "float32"), np.array(7))
        assert [np.asarray(value).tolist() for value in values] == expected


@pytest.mark.parametrize(
    "make", [OfflinePredictor, lambda c: MultiTowerOfflinePredictor(c, 2), lambda c: DataParallelOfflinePredictor(c, 2)]
)
def test_predictors_return_an_input_that_is_asked_for(make, rng):
    image = rng.normal(size=(5, 3)).astype("float32")
    predictor = make(make_config(output_names=["image", "scores"]))
    with predictor.sess:
        got_image, got_scores = predictor(image, 2.0)
    np.testing.assert_array_equal(got_image, image)
    np.testing.assert_allclose(got_scores, scores(image, 2.0), rtol=1e-5)


def test_an_operation_that_fails_is_told_with_the_line_that_made_it(session8):
    x = tf.placeholder(tf.float32, [None], name="x")
    checked = tf.debugging.check_numerics(x, "what was fed")
    with pytest.raises(tf.errors.InvalidArgumentError, match="what was fed") as raised:
        make_predict_function(session8, [x], [checked])(np.array([np.nan], "float32"))
    assert f"was made in {__file__}, line " in str(raised.value)
    assert str(raised.value).endswith('checked = tf.debugging.check_numerics(x, "what was fed")')
