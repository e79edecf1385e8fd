"""Making variables with a component on each device."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, ON_READ, SUM, devices_of, in_scope, started
from tpack.distribute.variables.replicated import MirroredVariable, TowerLocalVariable, create_distributed_variable
from tpack.errors import ConfigError

KEYS = tf.GraphKeys


def names(key):
    return [variable.op.name for variable in tf.get_collection(key)]


def test_components_are_resources_on_their_devices_named_after_the_first(graph):
    with in_scope(3):
        variable = tf.get_variable("scope/v", [2], initializer=tf.zeros_initializer())
    assert isinstance(variable, MirroredVariable)
    assert [c.op.name for c in variable.components] == ["scope/v", "scope/v/replica_1", "scope/v/replica_2"]
    assert [c.device for c in variable.components] == variable.devices == devices_of(3)
    assert {c.op.type for c in variable.components} == {"VarHandleOp"}


def test_what_is_around_does_not_move_components(graph):
    with in_scope(), tf.device("/cpu:5"), tf.colocate_with(tf.no_op(name="other")):
        variable = tf.get_variable("v", [])
        local = tf.get_variable("local", [], synchronization=ON_READ, aggregation=SUM)
    for made in (variable, local):
        assert [c.device for c in made.components] == [c.handle.device for c in made.components] == devices_of(2)
        assert b"loc:@other" not in {group for c in made.components for group in c.op.colocation_groups()}


def test_name_scopes_do_not_reach_the_other_components(graph):
    with in_scope(), tf.name_scope("scope"):
        variable = tf.Variable(1.0, name="v")
    assert [c.op.name for c in variable.components] == ["scope/v", "scope/v/replica_1"]


def test_all_begin_with_the_same_random_value(session8):
    with in_scope(4):
        made = [
            tf.get_variable("a", [3], initializer=tf.random_normal_initializer()),
            tf.Variable(tf.random.normal([3]), name="b"),
            tf.Variable(lambda: tf.random.normal([3]), name="c"),
            tf.get_variable("d", initializer=np.float32([1, 2, 3])),
        ]
    for first, *others in started(session8).run([variable.components for variable in made]):
        assert all(other.tobytes() == first.tobytes() for other in others)
        assert first.std() > 0


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, [KEYS.GLOBAL_VARIABLES, KEYS.TRAINABLE_VARIABLES]),
        ({"trainable": False}, [KEYS.GLOBAL_VARIABLES]),
        ({"collections": [KEYS.LOCAL_VARIABLES, "mine"], "trainable": False}, [KEYS.LOCAL_VARIABLES, "mine"]),
        ({"synchronization": ON_READ}, [KEYS.GLOBAL_VARIABLES]),
    ],
)
def test_the_collections_hold_the_variable_in_place_of_its_components(graph, options, keys):
    everywhere = [KEYS.GLOBAL_VARIABLES, KEYS.TRAINABLE_VARIABLES, KEYS.LOCAL_VARIABLES, "mine"]
    before = tf.get_variable("before", [], use_resource=True)
    with in_scope():
        variable = tf.get_variable("v", [], **options)
    tf.get_variable("after", [], use_resource=True)
    for key in everywhere:
        around = key in (KEYS.GLOBAL_VARIABLES, KEYS.TRAINABLE_VARIABLES)
        wanted = [before] * around + [variable] * (key in keys)
        assert tf.get_collection(key)[: len(wanted)] == wanted
        assert len(tf.get_collection(key)) == len(wanted) + around


@pytest.mark.parametrize("aggregation", [NONE, SUM, MEAN, FIRST])
def test_synchronization_on_read_makes_a_tower_local_variable(graph, aggregation):
    with in_scope():
        variable = tf.get_variable("v", [], synchronization=ON_READ, aggregation=aggregation)
        other = tf.get_variable("w", [], aggregation=aggregation)
    assert isinstance(variable, TowerLocalVariable)
    assert not variable.trainable
    assert isinstance(other, MirroredVariable)
    assert variable.aggregation == other.aggregation == aggregation


def test_the_second_version_s_enumerations_are_known_too(graph):
    with in_scope():
        variable = tf.compat.v2.Variable(1.0, aggregation=tf.compat.v2.VariableAggregation.ONLY_FIRST_REPLICA)
    assert isinstance(variable, MirroredVariable)
    assert variable.aggregation == FIRST


def test_a_caching_device_is_ignored(graph):
    with in_scope():
        variable = tf.get_variable("v", [], caching_device="/cpu:7")
    assert all("CPU:7" not in operation.device for operation in graph.get_operations())
    assert variable.components[1].handle.device == "/device:CPU:1"


def test_synchronization_none_is_an_error(graph):
    with in_scope(), pytest.raises(ConfigError, match="'v' got synchronization=.*NONE.* under a strategy"):
        tf.get_variable("v", [], synchronization=tf.VariableSynchronization.NONE)


def test_another_aggregation_is_an_error():
    with pytest.raises(ConfigError, match="'v' got aggregation='sum'"):
        create_distributed_variable(
            MirroredVariable, lambda **kwargs: None, ["/cpu:0"], {"name": "v", "aggregation": "sum"}
        )


def test_a_variable_that_is_reused_is_the_same(graph):
    with in_scope(), tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v", []) is tf.get_variable("v", [])
    assert names(KEYS.GLOBAL_VARIABLES) == ["s/v"]


def test_regularizers_see_the_variable(session8):
    with in_scope():
        tf.get_variable("v", [2], initializer=tf.ones_initializer(), regularizer=lambda v: tf.reduce_sum(v) * 3)
    assert started(session8).run(tf.losses.get_regularization_losses()) == [6.0]
