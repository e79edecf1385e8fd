"""Changes of variables that one of several towers would make alone."""

import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE
from tests.helpers.strategies import NONE, ON_READ, SUM, devices_of, in_scope, started, values
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.write_guard import protect, refuse_lone_change, refuse_partial_change
from tpack.errors import StrategyError
from tpack.graph_builder.towers import build_towers


def make(**options):
    return tf.get_variable("v", [2], initializer=tf.ones_initializer(), **options)


def test_an_operation_of_optimizers_is_refused_in_a_tower_of_several(graph):
    def tower():
        variable = make()
        return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.1, delta=variable.read_value())

    with in_scope() as strategy, pytest.raises(StrategyError, match="an optimizer changes v in one of several towers"):
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

    with in_scope() as strategy, pytest.raises(StrategyError, match="changes v.*, which all towers share"):
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
    with pytest.raises(StrategyError, match="AssignVariableOp changes v, which all towers share"):
        refuse_lone_change(operation)


ALONE = "would change v.* alone, one of several mirrors of a variable"


def minimize(variable):
    return tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(variable**2), var_list=[variable])


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_an_optimizer_by_itself_is_refused_across_towers(graph, name, rows):
    with in_scope(), pytest.raises(StrategyError, match=ALONE):
        OPTIMIZERS[name]().minimize(tf.reduce_sum(tf.gather(make(), [0]) if rows else make() ** 2))


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", ["ftrl", "rmsprop", "sgd"])
def test_an_optimizer_by_itself_is_refused_outside_of_strategies(graph, name, rows):
    with in_scope():
        variable = make()
    with pytest.raises(StrategyError, match=ALONE):
        OPTIMIZERS[name]().minimize(tf.reduce_sum(tf.gather(variable, [0]) if rows else variable**2))


def test_an_optimizer_that_assigns_to_the_variable_is_right_outside_of_strategies(session8):
    with in_scope():
        variable = make()
    train = tf.train.AdamOptimizer(0.5).minimize(tf.reduce_sum(tf.gather(variable, [0])))
    started(session8).run(train)
    np.testing.assert_allclose(session8.run(variable.components), [[0.5, 1.0]] * 2, rtol=1e-6)


def test_an_optimizer_of_the_default_strategy_is_one_by_itself(graph):
    with in_scope():
        variable = make()
    with pytest.raises(StrategyError, match=ALONE):
        DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(tf.reduce_sum(variable))


def test_an_optimizer_is_refused_in_conditions_loops_and_functions(graph):
    with in_scope():
        variable = make()

    def body(i):
        with tf.control_dependencies([minimize(variable)]):
            return i + 1

    for build in (
        lambda: tf.cond(tf.constant(True), lambda: minimize(variable), tf.no_op),
        lambda: tf.cond(tf.constant(True), lambda: tf.while_loop(lambda i: i < 2, body, [0]), lambda: 0),
        lambda: tf.compat.v2.function(lambda: minimize(variable))(),
    ):
        with pytest.raises(StrategyError, match=ALONE):
            build()


def test_an_optimizer_is_refused_in_a_trainer_s_towers_and_in_another_thread(graph):
    with in_scope():
        variable = make()
    with pytest.raises(StrategyError, match="an optimizer changes v in one of several towers"):
        build_towers(lambda: minimize(variable), devices_of(2), [True, True])

    def build():
        with graph.as_default():
            minimize(variable)

    with ThreadPoolExecutor(1) as pool, pytest.raises(StrategyError, match=ALONE):
        pool.submit(build).result()


@pytest.mark.parametrize(
    "change",
    [
        lambda v: tf.scatter_add(v[0], [0], [1]),
        lambda v: tf.scatter_nd_update(v[0], [[0]], [1]),
        lambda v: tf.count_up_to(v[1], 5),
    ],
)
def test_what_changes_a_variable_by_its_handle_is_refused(graph, change):
    with in_scope():
        variable = [tf.get_variable(f"v{rank}", [2][rank:], tf.int32, tf.zeros_initializer()) for rank in (0, 1)]
        with pytest.raises(StrategyError, match=ALONE):
            change(variable)
    with pytest.raises(StrategyError, match=ALONE):
        change(variable)


def test_in_an_update_and_with_one_mirror_everything_may_change(session8):
    with in_scope() as strategy:
        variable = make()
        with strategy.colocate_vars_with("/cpu:5"):
            alone = tf.get_variable("alone", [2], initializer=tf.ones_initializer())
        gradient = tf.constant([1.0, 2.0])
        changed = [
            strategy.update(
                variable, lambda v, g: tf.train.GradientDescentOptimizer(0.5).apply_gradients([(g, v)]), gradient
            ),
            strategy.update(variable, lambda _: tf.scatter_add(variable, [0], [0.5])),
        ]
        operation = strategy.group(changed)
    started(session8).run([operation, minimize(alone)])
    assert [v.tolist() for v in session8.run(variable.components)] == [[1.0, 0.0]] * 2
    np.testing.assert_allclose(session8.run(alone), [0.8, 0.8])


def test_gradients_do_not_change_anything(session8):
    with in_scope():
        variable = make()
    assert started(session8).run(tf.gradients(tf.reduce_sum(variable**2), variable))[0].tolist() == [2.0, 2.0]


def test_assigning_to_a_mirror_by_its_name_is_allowed_outside_of_towers(session8):
    with in_scope():
        variable = make()
    operation = variable.components[1].assign([3.0, 4.0])
    refuse_partial_change(operation.op)
    started(session8).run(operation)
    assert session8.run(variable.components[1]).tolist() == [3.0, 4.0]


def test_the_traceback_shows_the_line_that_makes_the_change(graph):
    def change(mirror):
        return mirror.assign(tf.ones([2]))

    with in_scope() as strategy, pytest.raises(StrategyError) as caught:
        strategy.call_for_each_tower(change, make())
    assert "change" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
