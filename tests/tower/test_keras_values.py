"""Values that Keras gives variables in a tower: which become first values, and which do not."""

import sys

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from tests.helpers.log_lines import captured_log
from tpack.compat.keras import unknown_keras_places
from tpack.errors import GraphBuildError
from tpack.keras.bound_model import own_global_seeds
from tpack.tower.context import PredictTowerContext, TowerContext, TrainTowerContext
from tpack.tower.keras_values import KerasValues, is_giving_value
from tpack.tower.tower_func import TowerFunc


def dense(**options):
    layer = keras.layers.Dense(2, name="fc", **options)
    layer.build([None, 3])
    return layer


def initialised(session, name="fc/kernel"):
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    (variable,) = [v for v in tf.global_variables() if v.op.name.endswith(name)]
    np.testing.assert_array_equal(session.run(variable.initial_value), session.run(variable))
    return session.run(variable)


def test_the_last_value_is_the_first_of_the_variable(session8):
    with TrainTowerContext(""):
        layer = dense()
        for value in (1.0, 2.0):
            layer.kernel.assign(np.full([3, 2], value))
    assert (initialised(session8) == 2.0).all()


def test_whoever_made_a_group_of_initialisers_before_runs_the_value(session8):
    with TrainTowerContext(""):
        layer = dense()
        group = tf.global_variables_initializer()
        layer.kernel.assign(np.full([3, 2], 7.0))
    session8.run(group)
    assert (session8.run(layer.kernel.value) == 7.0).all()


def test_a_value_that_waits_for_others_is_taken_out_of_their_reach(session8):
    with TrainTowerContext(""):
        layer = dense()
        with tf.control_dependencies([tf.placeholder(tf.float32, [])]):
            layer.kernel.assign(np.full([3, 2], 7.0))
    assert (initialised(session8) == 7.0).all()


def test_a_value_that_is_computed_without_variables_is_a_first_value(session8):
    with TrainTowerContext(""):
        dense().kernel.assign(tf.random.stateless_uniform([3, 2], [1, 2]) + 5.0)
    np.testing.assert_array_equal(
        initialised(session8), session8.run(tf.random.stateless_uniform([3, 2], [1, 2]) + 5.0)
    )


@pytest.mark.parametrize("depends_on", ["variable", "input"])
def test_a_value_that_only_a_run_knows_is_said_to_be_lost(session8, depends_on):
    with captured_log() as lines, TrainTowerContext(""):
        layer = dense(kernel_initializer="ones")
        layer.kernel.assign(layer.kernel * 2.0 if depends_on == "variable" else tf.placeholder(tf.float32, [3, 2]))
    assert (initialised(session8) == 1.0).all()
    assert any("fc/kernel keeps its first value" in line for line in lines)


def test_random_numbers_of_keras_are_no_weights(session8):
    with own_global_seeds(is_made=False), captured_log() as lines, TrainTowerContext(""):
        keras.random.uniform([3])
    assert not any("keeps its first value" in line for line in lines)


def test_values_given_where_a_layer_is_built_are_no_updates(session8):
    class Pretrained(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=[], initializer="ones", name="scale")
            self.scale.assign(3.0)

        def call(self, x):
            self.scale.assign(self.scale + 1.0)
            return x * self.scale

    with TrainTowerContext(""):
        TowerFunc(lambda: Pretrained(name="own")(tf.ones([2])), [])()
    assert initialised(session8, "scale") == 3.0
    (update,) = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    session8.run(update)
    (scale,) = tf.global_variables()
    assert session8.run(scale) == 4.0


@pytest.mark.parametrize("checkpoint_is_last", [False, True])
def test_of_a_checkpoint_and_keras_the_last_counts(session8, tmp_path, checkpoint_is_last):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("saved", initializer=np.full([3, 2], 5.0, "float32"))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with TrainTowerContext(""):
        layer = dense()
        steps = [
            lambda: tf.train.init_from_checkpoint(path, {"saved": layer.kernel.value}),
            lambda: layer.kernel.assign(np.full([3, 2], 7.0)),
        ]
        for step in steps if not checkpoint_is_last else steps[::-1]:
            step()
    assert (initialised(session8) == (5.0 if checkpoint_is_last else 7.0)).all()


@pytest.mark.parametrize("around", ["graph", "session8"])
def test_what_tf_keras_keeps_in_its_session_is_a_first_value(around, request):
    request.getfixturevalue(around)
    towers = [TrainTowerContext(f"tower{k}", "tower1" * k, index=k, total=2) for k in range(2)]
    for tower in towers:
        with tower:
            layer = tf_keras.layers.Dense(2, name="fc")
            layer.build([None, 3])
            layer.set_weights([np.full([3, 2], 5.0 + tower.index), np.zeros(2)])
    kernels = [variable for tower in towers for variable in tower.recorder.variables if "kernel" in variable.name]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        assert [value.mean() for value in session.run(kernels)] == [5.0, 6.0]
        assert session.run(kernels[0].initial_value).mean() == 5.0


def test_a_prediction_tower_on_the_weights_of_training_changes_none(session8):
    def build(value):
        dense().kernel.assign(np.full([3, 2], value))

    with TrainTowerContext(""):
        build(1.0)
    with PredictTowerContext("predict", reuse=True):
        build(2.0)
    assert (initialised(session8) == 1.0).all()


def test_a_tower_that_fails_keeps_its_error_unless_it_is_about_a_layer_of_elsewhere(graph):
    with pytest.raises(ZeroDivisionError), TowerContext("", True):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="^must be from the same graph$"), TowerContext("", True):
        raise ValueError("must be from the same graph")
    layer = keras.layers.Dense(2)
    with tf.Graph().as_default():
        layer.build([None, 3])
    with (
        pytest.raises(GraphBuildError, match="has variables from outside, eager ones or another graph's"),
        TowerContext("", True),
    ):
        layer(tf.ones([1, 3]))


def test_without_keras_nothing_is_looked_for(graph, monkeypatch):
    with TrainTowerContext(""):
        layer = dense()
        values = KerasValues(from_start=True)
        layer.kernel.assign(np.full([3, 2], 7.0))
        monkeypatch.setattr(sys, "modules", {n: m for n, m in sys.modules.items() if n not in ("keras", "tf_keras")})
        values.keep(tf.global_variables())
        assert not is_giving_value()
        assert layer.kernel.value.initial_value.op.type != "Const"
        monkeypatch.undo()


def test_a_keras_with_its_code_in_other_files_is_refused(graph, monkeypatch):
    assert unknown_keras_places() == []

    class Layer:
        def __call__(self):
            pass

    monkeypatch.setattr(keras.layers, "Layer", Layer)
    (place,) = unknown_keras_places()
    assert place.startswith("keras.layers.Layer.__call__ is in ")
    assert place.endswith("test_keras_values.py, and not in /keras/src/layers/layer.py")
    with pytest.raises(GraphBuildError, match=r"this Keras is not supported.*layer\.py"):
        KerasValues()
