"""State of Keras layers in a strategy's towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, ON_READ, SUM, in_scope, started, tower_number
from tpack.distribute.contexts import with_layer_state
from tpack.distribute.variables.replicated import MirroredVariable, TowerLocalVariable
from tpack.tower.context import TrainTowerContext
from tpack.tower.tower_func import KerasUpdates

STATE = {"trainable": False, "dtype": tf.float32, "synchronization": None, "aggregation": NONE}


@pytest.mark.parametrize(
    ("changes", "aggregation"),
    [
        ({}, MEAN),
        ({"dtype": None}, MEAN),
        ({"dtype": tf.uint32}, FIRST),
        ({"trainable": True}, NONE),
        ({"trainable": None}, NONE),
        ({"use_resource": True}, NONE),
        ({"aggregation": SUM}, SUM),
    ],
)
def test_what_keras_says_nothing_of_is_local_to_towers(graph, changes, aggregation):
    kwargs = {**STATE, **changes}
    assert with_layer_state(kwargs) == kwargs
    with TrainTowerContext(""):
        made = with_layer_state(kwargs)
    assert made["aggregation"] == aggregation
    is_state = aggregation in (MEAN, FIRST)
    assert made == ({**kwargs, "aggregation": aggregation, "synchronization": ON_READ} if is_state else kwargs)


def test_a_batch_normalisation_of_keras_moves_its_averages_in_each_tower(session8):
    def tower():
        updates = KerasUpdates(tf.get_default_graph().get_name_scope())
        layer = tf.keras.layers.BatchNormalization(momentum=0.5)
        layer(tf.reshape(tower_number() * 2, [1, 1]) + np.float32([[-1], [1]]), training=True)
        made = [variable.value for variable in layer.variables]
        updates.collect(made)
        return made

    with in_scope(3) as strategy:
        gamma, beta, mean, variance = strategy.call_for_each_tower(tower)
    assert [type(v) for v in (gamma, beta, mean, variance)] == [MirroredVariable] * 2 + [TowerLocalVariable] * 2
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    started(session8)
    for _ in range(2):
        session8.run(updates)
    assert session8.run(mean.components) == [[1.5], [3.0], [4.5]]
    assert session8.run([mean, variance]) == [[3.0], [1.0]]
    assert len(updates) == 6


def test_outside_of_towers_variables_of_the_second_version_are_mirrored(graph):
    with in_scope():
        assert isinstance(tf.compat.v2.Variable(1.0, trainable=False), MirroredVariable)
