import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import TowerError, TowerMismatchError
from tpack.graph_builder.predict import build_predict_tower
from tpack.tower.context import TrainTowerContext, current_tower_context
from tpack.tower.tower_func import TowerFunc


def model(x):
    output = tf.multiply(x, tf.get_variable("w", [2], initializer=tf.ones_initializer()), name="output")
    tf.summary.scalar("mean", tf.reduce_mean(output))
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, output.op)
    return output


@pytest.fixture
def tower_func(graph):
    func = TowerFunc(model, [tf.TensorSpec([2], tf.float32, "x")])
    with TrainTowerContext("", has_own_variables=True):
        func(tf.ones([2]))
    return func


def test_the_tower_uses_the_variables_of_training(tower_func):
    tower = build_predict_tower(tower_func, [tf.constant([1.0, 2.0])], name="predict", device=0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(tower.get_tensor("output")), [1.0, 2.0])
    assert not tower.is_training
    assert tower.get_tensor("output").name == "predict/output:0"
    assert tower.get_tensor("output").device == "/device:CPU:0"
    assert len(tf.global_variables()) == 1


def test_collections_of_training_stay_as_they_were(tower_func):
    keys = [tf.GraphKeys.SUMMARIES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.TRAINABLE_VARIABLES]
    before = {key: tf.get_collection(key) for key in keys}
    build_predict_tower(tower_func, [tf.ones([2])], name="predict")
    assert all(len(tf.get_collection(key)) == len(before[key]) == 1 for key in keys)


def test_inputs_may_be_made_inside_the_tower(tower_func):
    tower = build_predict_tower(tower_func, lambda: [tf.placeholder(tf.float32, [2], "x")], name="predict")
    assert tower.get_tensor("x").name == "predict/x:0"


def test_a_name_twice_is_an_error(tower_func):
    build_predict_tower(tower_func, [tf.ones([2])], name="predict")
    with pytest.raises(TowerError, match="a tower 'predict' already"):
        build_predict_tower(tower_func, [tf.ones([2])], name="predict")


@pytest.mark.parametrize("make", [lambda: tf.get_variable("more", []), lambda: tf.Variable(0.0, name="more")])
def test_a_variable_of_prediction_only_is_an_error(graph, make):
    func = TowerFunc(lambda: None if current_tower_context().is_training else make(), [])
    with TrainTowerContext(""):
        func()
    with pytest.raises(TowerMismatchError, match="more"):
        build_predict_tower(func, [], name="predict")
