"""Which variables are part of a model."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import PredictTowerContext, TrainTowerContext, add_model_variable


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
