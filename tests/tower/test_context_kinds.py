"""Training and prediction towers say what they are, and which of their variables are part of the model."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import PredictTowerContext, TrainTowerContext, add_model_variable


@pytest.mark.parametrize("index", [0, 1])
def test_a_training_tower_describes_itself(graph, index):
    context = TrainTowerContext("tower", "scope", index=index, total=2, device="/cpu:3")
    assert (context.name, context.ns_name, context.vs_name) == ("tower", "tower", "scope")
    assert (context.index, context.total, context.device) == (index, 2, "/cpu:3")
    assert context.is_training
    assert context.has_own_variables
    assert context.is_main_tower == context.is_main_training_tower == (index == 0)
    assert repr(context) == f"training tower 'tower' ({index + 1} of 2)"


def test_a_prediction_tower_describes_itself(graph):
    context = PredictTowerContext("", device="/cpu:0")
    assert not context.is_training
    assert not context.has_own_variables
    assert context.is_main_tower
    assert not context.is_main_training_tower
    assert repr(context) == "prediction tower '(without a name)' (1 of 1)"


@pytest.mark.parametrize(
    ("make_tower", "is_added"),
    [
        (lambda: TrainTowerContext("tower0", index=0, total=2), True),
        (lambda: TrainTowerContext("tower1", "tower1", index=1, total=2), False),
        (lambda: TrainTowerContext("tower1", index=1, total=2), False),
        (lambda: PredictTowerContext("predict"), True),
        (lambda: PredictTowerContext("predict1", index=1, total=2), True),
    ],
)
def test_copies_in_other_training_towers_are_not_part_of_the_model(graph, make_tower, is_added):
    with make_tower():
        variable = tf.get_variable("average", [], trainable=False)
        add_model_variable(variable)
        add_model_variable(variable)
    assert tf.model_variables() == [variable] * is_added


def test_outside_of_towers_a_variable_is_added_once(graph):
    first, second = (tf.get_variable(name, [], trainable=False) for name in "ab")
    for variable in (first, second, first):
        add_model_variable(variable)
    assert tf.model_variables() == [first, second]
