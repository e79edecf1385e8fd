"""Changes of variables that one of several towers would make alone."""

import traceback

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS
from tests.helpers.strategies import NONE, ON_READ, SUM, in_scope, started, values
from tpack.distribute.change_check import protect, refuse_lone_change
from tpack.distribute.context import get_tower_context
from tpack.errors import StrategyError


def make(**options):
    return tf.get_variable("v", [2], initializer=tf.ones_initializer(), **options)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_by_itself_is_refused_in_a_tower_of_several(graph, name, rows):
    def tower():
        loss = tf.reduce_sum(tf.gather(make(), [0]) if rows else make() ** 2)
        return OPTIMIZERS[name]().minimize(loss)

    refused = (
        "an optimizer changes v in one of several|changes v, the mirror of one of several|v/Adam, which is mirrored"
    )
    with in_scope() as strategy, pytest.raises(StrategyError, match=refused):
        strategy.call_for_each_tower(tower)


def test_an_optimizer_by_itself_works_in_the_only_tower(session8):
    with in_scope(1) as strategy:
        train = strategy.call_for_each_tower(
            lambda: tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(make()))
        )
    started(session8).run(train)
    assert session8.run(tf.global_variables()[0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub", "scatter_add"])
def test_a_mirror_is_not_changed_alone(graph, method):
    def tower(mirror):
        value = tf.IndexedSlices([1.0], [0]) if method == "scatter_add" else tf.ones([2])
        return getattr(mirror, method)(value)

    with in_scope() as strategy, pytest.raises(StrategyError, match="changes v.*, the mirror of one of several towers"):
        strategy.call_for_each_tower(tower, make())


def test_what_belongs_to_a_tower_and_what_all_make_together_may_change(session8):
    plain = tf.get_variable("plain", [], initializer=tf.zeros_initializer(), use_resource=True)

    def tower():
        local = tf.get_variable("local", [], initializer=tf.zeros_initializer(), synchronization=ON_READ)
        shared = tf.get_variable("shared", [], initializer=tf.zeros_initializer(), aggregation=SUM)
        gradient = tf.ones([2])
        updated = get_tower_context().merge_call(
            lambda strategy, g, v: strategy.update(
                v, lambda mirror, g: mirror.assign_sub(g), strategy.reduce(SUM, g, v)
            ),
            gradient,
            make(aggregation=NONE),
        )
        return local.assign_add(1.0), shared.assign_add(1.0), updated, plain.assign_add(1.0)

    with in_scope() as strategy:
        changed = strategy.call_for_each_tower(tower)
    started(session8)
    assert [values(session8, each)[1].tolist() for each in changed[:3]] == [1.0, 2.0, [-1.0, -1.0]]


def test_a_variable_can_be_protected_later(graph):
    with in_scope():
        variable = make(synchronization=ON_READ, aggregation=SUM)
    operation = variable.primary.assign(tf.ones([2]), read_value=False)
    refuse_lone_change(operation)
    refuse_lone_change(tf.no_op())
    protect(variable)
    with pytest.raises(StrategyError, match="AssignVariableOp changes v, the mirror"):
        refuse_lone_change(operation)


def test_the_traceback_shows_the_line_that_makes_the_change(graph):
    def change(mirror):
        return mirror.assign(tf.ones([2]))

    with in_scope() as strategy, pytest.raises(StrategyError) as caught:
        strategy.call_for_each_tower(change, make())
    assert "change" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
