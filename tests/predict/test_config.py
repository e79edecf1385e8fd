"""What a predictor is made of: the three ways to give a model, and what is refused."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line
from tpack.errors import ConfigError
from tpack.predict import PredictConfig
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import DictRestore, JustCurrentSession
from tpack.tower.context import PredictTowerContext
from tpack.tower.tower_func import TowerFunc

SIGNATURE = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def identity(image, label):
    return image


def test_defaults_are_all_inputs_a_new_graph_and_initial_values():
    config = PredictConfig(model=Line(), output_names=["prediction"])
    assert config.input_names == ["x", "y"]
    assert [spec.name for spec in config.input_signature] == ["x", "y"]
    assert isinstance(config.tower_func, TowerFunc)
    assert isinstance(config.session_creator, NewSessionCreator)
    assert isinstance(config.session_init, JustCurrentSession)
    assert config.create_graph
    assert not config.return_input


def test_a_function_with_its_signature_and_a_tower_func_are_models():
    config = PredictConfig(tower_func=identity, input_signature=SIGNATURE, output_names=("image",))
    assert config.tower_func.input_signature == SIGNATURE
    assert config.output_names == ["image"]
    func = TowerFunc(identity, SIGNATURE)
    assert PredictConfig(tower_func=func, output_names=["image"]).tower_func is func
    assert PredictConfig(tower_func=func, input_signature=SIGNATURE, output_names=["image"]).tower_func is func


def test_a_precision_is_that_of_the_model():
    config = PredictConfig(model=Line(), output_names=["prediction"], precision="bfloat16")
    assert config.input_names == ["x", "y"]
    with tf.Graph().as_default() as graph, PredictTowerContext(""):
        config.tower_func(*(tf.placeholder(spec.dtype, spec.shape) for spec in config.input_signature))
        assert graph.get_tensor_by_name("prediction:0").dtype == tf.bfloat16


def test_session_init_is_kept():
    init = DictRestore({"w": 1.0})
    assert PredictConfig(model=Line(), output_names=["prediction"], session_init=init).session_init is init


def test_the_graph_is_a_new_one_or_the_default_one(graph):
    config = PredictConfig(model=Line(), output_names=["prediction"])
    assert config.make_graph() is not graph
    assert config.make_graph() is not config.make_graph()
    assert PredictConfig(model=Line(), output_names=["prediction"], create_graph=False).make_graph() is graph


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "got no model: expected"),
        ({"tower_func": identity}, "got no model: expected"),
        ({"model": 3}, "PredictConfig got model=3: expected a ModelDescBase"),
        ({"model": Line(), "tower_func": identity}, "expected model alone"),
        (
            {"tower_func": TowerFunc(identity, SIGNATURE), "input_signature": SIGNATURE[:1]},
            "another input_signature than that of the TowerFunc",
        ),
        ({"model": Line(), "output_names": None}, "output_names=None: expected a list of tensor names"),
        ({"model": Line(), "output_names": []}, "output_names with 0 entries: expected at least 1"),
        ({"model": Line(), "output_names": "cost"}, "^PredictConfig got output_names="),
        ({"model": Line(), "input_names": [1]}, r"^PredictConfig got input_names\[0\]="),
        ({"model": Line(), "precision": "int8"}, "precision got 'int8': expected one of float32, bfloat16, float16"),
        ({"model": Line(), "session_init": "model.npz"}, "^PredictConfig got session_init="),
        ({"model": Line(), "session_creator": 5}, "session_creator=5: expected an object with create_session"),
        ({"model": Line(), "return_input": "no"}, "return_input='no': expected True or False"),
    ],
)
def test_what_cannot_work_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        PredictConfig(**{"output_names": ["y"], **arguments})
