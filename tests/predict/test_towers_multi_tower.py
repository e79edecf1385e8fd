"""Predictors on several devices: the same numbers everywhere, on the devices that were asked for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.predict_models import make_config, scores
from tpack.errors import ConfigError, TowerError
from tpack.predict import MultiTowerOfflinePredictor, OfflinePredictor


@pytest.fixture(scope="module")
def predictor():
    predictor = MultiTowerOfflinePredictor(make_config(), 4)
    yield predictor
    predictor.sess.close()


def test_every_tower_gives_the_same_bits_as_one(predictor, rng):
    image = rng.normal(size=(5, 3)).astype("float32")
    with OfflinePredictor(make_config()).sess as session:
        (expected,) = session.run(["scores:0"], {"image:0": image, "factor:0": 0.5})
    np.testing.assert_allclose(expected, scores(image, 0.5), rtol=1e-5)
    predictors = predictor.get_predictors()
    assert len(predictors) == 4
    for function in (predictor, *predictors):
        assert function(image, 0.5)[0].tobytes() == expected.tobytes()


def test_towers_are_on_their_devices_and_share_one_set_of_variables(predictor):
    graph = predictor.graph
    assert [graph.get_operation_by_name(f"tower{k}/MatMul").device for k in range(4)] == [
        f"/device:CPU:{k}" for k in range(4)
    ]
    with graph.as_default():
        assert {v.op.name: v.device for v in tf.global_variables()} == {
            "fc/W": "/device:CPU:0",
            "bias": "/device:CPU:0",
        }


def test_towers_work_at_the_same_time(predictor, rng):
    images = rng.normal(size=(20, 2, 3)).astype("float32")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda k: predictor.get_predictors()[k % 4](images[k], 1.0)[0], range(20)))
    np.testing.assert_allclose(results, scores(images, 1.0), rtol=1e-5)


def test_predictors_are_given_out_in_turn(predictor):
    assert predictor.get_predictor(3) is predictor.get_predictors()[3]
    with captured_log() as lines:
        assert predictor.get_predictor(6) is predictor.get_predictors()[2]
    assert lines == ["Predictor 6 was requested of 4: some are shared."]


def test_the_input_can_be_returned_and_towers_be_chosen():
    predictor = MultiTowerOfflinePredictor(make_config(return_input=True, input_names=["factor", "image"]), [2, 0])
    with predictor.sess:
        operations = [predictor.graph.get_operation_by_name(f"tower{k}/MatMul") for k in range(2)]
        assert [op.device for op in operations] == ["/device:CPU:2", "/device:CPU:0"]
        assert predictor.return_input
        assert predictor.get_predictor(0).return_input


def test_variables_without_get_variable_are_named_as_if_the_tower_were_alone(graph):
    def model(x):
        return tf.identity(x * tf.Variable(2.0, name="scale"), name="y")

    config = make_config(
        tower_func=model,
        input_signature=[tf.TensorSpec([], tf.float32, "x")],
        output_names=["y"],
        session_init=None,
        create_graph=False,
    )
    predictor = MultiTowerOfflinePredictor(config, 1)
    with predictor.sess:
        assert predictor(3.0) == [6.0]
        assert predictor.graph is graph
    assert [variable.op.name for variable in tf.global_variables()] == ["scale"]


def test_what_cannot_work_is_refused():
    with pytest.raises(ConfigError, match="MultiTowerOfflinePredictor got config=3: expected a PredictConfig"):
        MultiTowerOfflinePredictor(3, 2)
    with pytest.raises(ConfigError, match="got gpus=0: expected at least one tower"):
        MultiTowerOfflinePredictor(make_config(), 0)
    with pytest.raises(TowerError, match="no tensor 'score' .*near names: scores"):
        MultiTowerOfflinePredictor(make_config(output_names=["score"]), 2)
