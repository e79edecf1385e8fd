"""A predictor with a graph and a session of its own, against session.run of the same model."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.saver import ModelSaver
from tpack.errors import CheckpointError, ConfigError, TowerError
from tpack.predict import OfflinePredictor, PredictConfig
from tpack.tfutils.sesscreate import ReuseSessionCreator
from tpack.tfutils.sessinit import DictRestore, SmartInit
from tpack.tower.context import current_tower_context
from tpack.tower.tower_func import TowerFunc
from tpack.train.trainers import SyncMultiGPUTrainerReplicated

WEIGHTS = {"w": 3.0, "b": -1.0}


def line_config(**options):
    return PredictConfig(**{"model": Line(), "input_names": ["x"], "output_names": ["prediction"], **options})


def test_outputs_are_those_of_session_run(rng):
    predictor = OfflinePredictor(
        line_config(input_names=None, output_names=["prediction", "cost"], session_init=DictRestore(WEIGHTS))
    )
    x, y = rng.random(5, "float32"), rng.random(5, "float32")
    with predictor.sess as session:
        tensors = [predictor.graph.get_tensor_by_name(name) for name in ("prediction:0", "cost:0")]
        expected = session.run(tensors, {"x:0": x, "y:0": y})
        for result, value in zip(predictor(x, y), expected, strict=True):
            np.testing.assert_array_equal(result, value)
        np.testing.assert_allclose(expected[0], 3 * x - 1, rtol=1e-6)


@pytest.mark.parametrize("session_init", [None, SmartInit(None)])
def test_weights_that_nothing_restores_are_a_warning(session_init):
    with captured_log() as lines:
        predictor = OfflinePredictor(line_config(session_init=session_init))
    predictor.sess.close()
    (line,) = [line for line in lines if "session_init" in line]
    assert line == (
        "PredictConfig got no session_init: 2 trainable variable(s) have initial values, mostly random ones (w, b); "
        "use session_init=SmartInit(path of a checkpoint)"
    )


def test_restored_weights_a_users_session_and_a_model_without_any_are_no_warning(session8):
    with captured_log() as lines:
        OfflinePredictor(line_config(session_init=DictRestore(WEIGHTS))).sess.close()
        OfflinePredictor(line_config(create_graph=False, session_creator=ReuseSessionCreator(session8)))
        double = TowerFunc(lambda x: tf.multiply(x, 2, "double"), [tf.TensorSpec([], tf.float32, "x")])
        OfflinePredictor(line_config(model=None, tower_func=double, output_names=["double"])).sess.close()
    assert not [line for line in lines if "session_init" in line]


def test_the_model_is_built_for_prediction_and_its_towers_are_not_kept():
    seen = []

    def model(x):
        seen.append(current_tower_context().is_training)
        return tf.identity(x, "same")

    config = line_config(
        model=None, tower_func=TowerFunc(model, [tf.TensorSpec([], tf.float32, "x")]), output_names=["same"]
    )
    for _ in range(2):
        predictor = OfflinePredictor(config)
        assert predictor(2.5) == [2.5]
        predictor.sess.close()
    assert seen == [False, False]
    assert len(config.tower_func.towers) == 0


def test_any_tensor_can_be_given_and_the_input_returned():
    predictor = OfflinePredictor(line_config(input_names=["prediction", "y"], output_names=["cost"], return_input=True))
    with predictor.sess:
        assert predictor([1.0, 2.0], [1.0, 4.0]) == (([1.0, 2.0], [1.0, 4.0]), [2.0])


def test_weights_of_a_training_on_several_towers_are_restored(log_dir):
    model, trainer = Line(), SyncMultiGPUTrainerReplicated(2)
    trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, model.get_optimizer)
    recorder = Recorder()
    trainer.train_with_defaults(callbacks=[ModelSaver(), recorder], monitors=[], steps_per_epoch=5, max_epoch=2)
    checkpoint = tf.train.latest_checkpoint(str(log_dir))
    assert os.path.basename(checkpoint) == "model-10"
    predictor = OfflinePredictor(line_config(session_init=SmartInit(checkpoint)))
    with predictor.sess:
        (prediction,) = predictor([0.0, 1.0])
    w, b = recorder.weights["w"], recorder.weights["b"]
    np.testing.assert_array_equal(prediction, [b, w + b])
    assert w != 0


def test_without_create_graph_the_default_graph_and_a_session_of_the_users_own_serve(graph):
    with tf.Session() as session:
        predictor = OfflinePredictor(line_config(create_graph=False, session_creator=ReuseSessionCreator(session)))
        assert predictor.graph is graph
        assert predictor.sess is session
        tf.global_variables()[0].load(5.0, session)
        np.testing.assert_array_equal(predictor([1.0, 2.0])[0], [5.0, 10.0])


def test_names_that_do_not_exist_are_errors_with_near_names():
    with pytest.raises(TowerError, match="no tensor 'predictions' .*near names: prediction"):
        OfflinePredictor(line_config(output_names=["predictions"]))
    with pytest.raises(TowerError, match="no tensor 'z' "):
        OfflinePredictor(line_config(input_names=["z"]))


def test_weights_that_do_not_fit_are_an_error():
    with pytest.raises(CheckpointError, match="do not fit"):
        OfflinePredictor(line_config(session_init=DictRestore({"w": [1.0, 2.0]})))


def test_only_a_config_will_do():
    with pytest.raises(ConfigError, match="OfflinePredictor got config=a Line: expected a PredictConfig"):
        OfflinePredictor(type("Line", (), {"__repr__": lambda self: "Line"})())


def test_input_that_is_not_there_is_an_error_that_lists_the_inputs():
    with pytest.raises(TowerError, match="no tensor 'image' in .*; its inputs: x, y"):
        OfflinePredictor(line_config(input_names=["image"]))
