"""Variables without get_variable: found again where the main tower made them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import TowerMismatchError
from tpack.graph_builder.towers import build_towers
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.ownership import VariablePaths


def names(variables):
    return [variable.op.name for variable in variables]


def make_variables():
    with tf.name_scope("layer"):
        made = [tf.Variable(1.0, name="w"), tf.compat.v2.Variable(lambda: tf.ones([2]), name="w", shape=[2])]
    with tf.name_scope("layer"):
        made.append(tf.Variable(3.0, name="w"))
    return [*made, tf.Variable(4.0), tf.get_variable("v", []), tf.Variable(5.0, name="v")]


@pytest.mark.parametrize("main_name", ["", "tower0"])
def test_a_prediction_tower_finds_each_variable_by_its_path(graph, main_name):
    with tf.name_scope("around") if not main_name else tf.name_scope(None), TrainTowerContext(main_name):
        made = make_variables()
    with PredictTowerContext("predict", reuse=True) as tower:
        found = make_variables()
    assert names(found) == names(made)
    assert all(a is b for a, b in zip(found, made, strict=True))
    assert len(tf.global_variables()) == 6
    assert tower.recorder.variables == []


def test_towers_that_share_variables_share_these(graph):
    outputs = build_towers(make_variables, ["/cpu:0"] * 3, [False] * 3).outputs
    assert names(outputs[0]) == ["layer/w", "layer/w_1", "layer_1/w", "Variable", "v", "v_1"]
    assert all(a is b for output in outputs for a, b in zip(output, outputs[0], strict=True))


def test_a_prediction_tower_takes_those_of_the_tower_that_it_belongs_to(graph):
    outputs = build_towers(make_variables, ["/cpu:0"] * 2, [True] * 2).outputs
    for tower, made in zip(("", "tower1"), outputs, strict=True):
        with PredictTowerContext(f"predict_{tower}", tower, reuse=True):
            assert names(make_variables()) == names(made)


def test_another_shape_is_an_error(graph):
    with TrainTowerContext(""):
        tf.Variable(np.ones([2, 3]), name="w")
    wanted = r"prediction tower 'p' .* asks for a variable of shape \(3, 2\) where .* made w of shape \(2, 3\)"
    with PredictTowerContext("p", reuse=True), pytest.raises(TowerMismatchError, match=wanted):
        tf.Variable(np.ones([3, 2]), name="w")
    with PredictTowerContext("q", reuse=True), pytest.raises(TowerMismatchError, match=r"shape \(\)"):
        tf.Variable(1.0, name="w")


def test_a_variable_too_many_is_an_error_that_lists_near_names(graph):
    with TrainTowerContext(""):
        tf.Variable(1.0, name="weights")
    with PredictTowerContext("p", reuse=True):
        tf.Variable(1.0, name="weights")
        with pytest.raises(TowerMismatchError, match="'weight', which .* did not; .*; near names: weights$"):
            tf.Variable(1.0, name="weight")
        with pytest.raises(TowerMismatchError, match="'weights', which"):
            tf.Variable(1.0, name="weights")


def test_paths_are_relative_to_where_they_begin(graph):
    paths = VariablePaths()
    with tf.name_scope("a"):
        paths.begin()
        with tf.name_scope("b"):
            assert paths.path("w") == "b/w"
        assert paths.path(None) == "Variable"
    with tf.name_scope("ab"):
        assert paths.path("w") == "ab/w"


def test_a_variable_that_is_called_after_a_tensor_is_found(graph):
    def average_of_cost():
        cost = tf.add(1.0, tf.random.normal([]), name="cost")
        return tf.Variable(1.0, trainable=False, name=f"average_{cost.op.name}")

    with TrainTowerContext(""):
        made = average_of_cost()
    with PredictTowerContext("predict", reuse=True):
        assert average_of_cost() is made
