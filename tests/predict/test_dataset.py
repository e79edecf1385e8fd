"""Predictions of a whole DataFlow, against numpy."""

import numpy as np
import pytest

from tests.helpers.predict_models import make_config, scores
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataPointError, WrongTypeError
from tpack.predict import DatasetPredictorBase, SimpleDatasetPredictor

POINTS = [[image, 0.5] for image in np.random.default_rng(2).normal(size=(5, 2, 3)).astype("float32")]


def test_results_come_in_order_and_again():
    predictor = SimpleDatasetPredictor(make_config(), DataFromList(POINTS, shuffle=False))
    with predictor.predictor.sess:
        for results in (predictor.get_all_result(), list(predictor.get_result())):
            assert len(results) == 5
            for (result,), (image, factor) in zip(results, POINTS, strict=True):
                np.testing.assert_allclose(result, scores(image, factor), rtol=1e-5)


def test_a_dataset_of_unknown_length_and_the_input_returned(capfd):
    flow = DataFromGenerator(lambda: iter(POINTS))
    predictor = SimpleDatasetPredictor(make_config(return_input=True), flow)
    with predictor.predictor.sess:
        results = predictor.get_all_result()
    assert [dp[0].tobytes() for dp, _ in results] == [image.tobytes() for image, _ in POINTS]
    assert "SimpleDatasetPredictor" in capfd.readouterr().err


def test_a_data_point_that_does_not_fit_ends_it():
    predictor = SimpleDatasetPredictor(make_config(), DataFromList([*POINTS[:2], [1]], shuffle=False))
    with predictor.predictor.sess:
        results = predictor.get_result()
        assert len([next(results), next(results)]) == 2
        with pytest.raises(DataPointError, match="expected 2"):
            next(results)


def test_what_cannot_work_is_refused():
    with pytest.raises(ConfigError, match="SimpleDatasetPredictor got config=3: expected a PredictConfig"):
        SimpleDatasetPredictor(3, DataFromList(POINTS))
    with pytest.raises(WrongTypeError, match="^SimpleDatasetPredictor got dataset="):
        SimpleDatasetPredictor(make_config(), [])
    with pytest.raises(TypeError, match="get_result"):
        DatasetPredictorBase(make_config(), DataFromList(POINTS))
