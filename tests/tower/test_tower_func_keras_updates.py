"""Updates of Keras layers: which operations are, and when they run."""

import sys

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from tpack.graph_builder.towers import build_towers
from tpack.tfutils.dependency import ancestors
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.tower_func import KerasUpdates, TowerFunc

KEYS = tf.GraphKeys


def update_ops():
    return tf.get_collection(KEYS.UPDATE_OPS)


def call(module, **options):
    return TowerFunc(lambda: module.layers.BatchNormalization(**options)(tf.ones([4, 3]), training=True), [])


@pytest.mark.parametrize("module", [keras, tf_keras])
def test_moving_averages_are_updated_in_training(session8, module):
    func = call(module, momentum=0.75)
    with TrainTowerContext(""):
        func()
    with PredictTowerContext("predict", reuse=True):
        func()
    assert len(update_ops()) == 2
    assert {v.op.name.rpartition("/")[2] for v in tf.model_variables()} == {"moving_mean", "moving_variance"}
    session8.run(tf.global_variables_initializer())
    session8.run(update_ops())
    (mean,) = [v for v in tf.global_variables() if v.op.name.endswith("moving_mean")]
    np.testing.assert_allclose(session8.run(mean), [0.25] * 3)


def test_updates_do_not_give_the_first_values_once_more(session8):
    def build():
        layer = keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 3))
        layer.set_weights([np.full(3, value, np.float32) for value in (1, 0, 8, 1)])
        return layer(tf.zeros([4, 3]), training=True)

    with TrainTowerContext(""):
        TowerFunc(build, [])()
    assigned = {op for op in ancestors(update_ops()) if op.type == "AssignVariableOp"}
    assert assigned == set(update_ops())
    session8.run(tf.global_variables_initializer())
    for _ in range(2):
        session8.run(update_ops())
    (mean,) = [v for v in tf.global_variables() if v.op.name.endswith("moving_mean")]
    np.testing.assert_allclose(session8.run(mean), [2] * 3)


@pytest.mark.parametrize(("own_variables", "expected"), [(True, 6), (False, 2)])
def test_each_set_of_variables_is_updated_once(graph, own_variables, expected):
    build_towers(call(keras), ["/cpu:0", "/cpu:1", "/cpu:2"], [own_variables] * 3)
    assert len(update_ops()) == expected
    assert len(tf.model_variables()) == 2


def test_random_numbers_are_drawn_before_their_state_is_updated(session8):
    func = TowerFunc(lambda: keras.layers.Dropout(0.5, seed=3)(tf.ones([1000]), training=True), [])
    with TrainTowerContext(""):
        dropped = func()
    (update,) = update_ops()
    reads = [
        op for op in tf.get_default_graph().get_operations() if op.type == "ReadVariableOp" and "dropout" in op.name
    ]
    before = {op for op in reads if op.name < update.name or not op.name.endswith("_1")}
    assert {op.name for op in before} <= {op.name for op in update.control_inputs}
    session8.run(tf.global_variables_initializer())
    first, second = (session8.run([dropped, update])[0] for _ in range(2))
    session8.run(tf.global_variables_initializer())
    np.testing.assert_array_equal(session8.run([dropped, update])[0], first)
    assert (first != second).any()


def test_what_a_user_assigns_is_no_update_of_a_layer(graph):
    def func():
        layer = keras.layers.BatchNormalization()
        layer(tf.ones([4, 3]), training=False)
        layer.moving_mean.assign(tf.ones([3]))
        tf.Variable(1.0).assign(2.0)

    with TrainTowerContext(""):
        TowerFunc(func, [])()
    assert update_ops() == []


def test_updates_that_are_known_and_those_of_others_are_left_alone(graph):
    with TrainTowerContext("tower0") as tower:
        updates = KerasUpdates("tower0")
        call(keras)()
        updates.collect(tower.recorder.variables)
        KerasUpdates("tower0").collect([])
        KerasUpdates("other").collect([])
        assert len(update_ops()) == 2


def test_without_keras_nothing_is_looked_for(graph, monkeypatch):
    monkeypatch.setattr(sys, "modules", {n: m for n, m in sys.modules.items() if n not in ("keras", "tf_keras")})
    updates = KerasUpdates("")
    updates.collect([])
    assert update_ops() == []
