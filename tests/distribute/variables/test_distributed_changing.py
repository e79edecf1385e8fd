"""Every method that changes a variable, in every place where it can be called, against a plain variable."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, ON_READ, SUM, devices_of, in_scope, started, values
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.variables.distributed import TO_AGGREGATE, ChangingMethods
from tpack.errors import StrategyError

START = [4.0, 6.0, 8.0]


def rows(scale):
    return (tf.IndexedSlices(tf.constant([5.0, 2.0]) * scale, tf.constant([0, 2])),)


def dense(scale):
    return ([1.0 * scale, 2.0 * scale, 3.0 * scale],)


def elements(scale):
    return [[0], [2]], [5.0 * scale, 2.0 * scale]


CHANGES = {
    **dict.fromkeys(["assign", "assign_add", "assign_sub"], dense),
    **dict.fromkeys(["scatter_add", "scatter_sub", "scatter_update", "scatter_max", "scatter_min"], rows),
    **dict.fromkeys(["scatter_mul", "scatter_div", "batch_scatter_update"], rows),
    **dict.fromkeys(["scatter_nd_add", "scatter_nd_sub", "scatter_nd_update"], elements),
}


def make(aggregation=NONE, **options):
    return tf.get_variable("v", initializer=tf.constant(START), aggregation=aggregation, **options)


def change(variable, method, scale=1.0):
    return getattr(variable, method)(*CHANGES[method](scale))


def wanted(method):
    """Return what a plain variable holds after a change."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        plain = tf.get_variable("v", initializer=tf.constant(START), use_resource=True)
        changed = change(plain, method)
        started(session).run(changed)
        after = session.run(plain).tolist()
    assert after != START
    return after


def test_all_methods_are_there():
    assert {name for name in vars(ChangingMethods) if not name.startswith("_")} == CHANGES.keys()
    assert set(TO_AGGREGATE) < CHANGES.keys()
    with pytest.raises(NotImplementedError):
        ChangingMethods().assign(1)


@pytest.mark.parametrize("method", CHANGES)
def test_outside_of_strategies_and_across_towers_all_mirrors_are_changed(session8, method):
    with in_scope(3) as strategy:
        across = make()
        changed = [strategy.group(change(across, method))]
    with tf.variable_scope("other"), in_scope(3):
        outside = make()
    changed.append(change(outside, method))
    started(session8).run(changed)
    assert [v.tolist() for v in session8.run([*across.components, *outside.components])] == [wanted(method)] * 6


@pytest.mark.parametrize("method", CHANGES)
def test_in_an_update_the_mirror_of_the_device_is_changed(session8, method):
    with in_scope(2) as strategy:
        variable = make()
        changed = strategy.update(variable, lambda mirror: change(variable, method))
    started(session8).run(changed.get("/cpu:1"))
    assert [v.tolist() for v in session8.run(variable.components)] == [START, wanted(method)]


@pytest.mark.parametrize("method", CHANGES)
def test_in_towers_what_the_first_brings_changes_all_mirrors(session8, method):
    def tower():
        return change(make(FIRST), method, scale=1.0 + get_tower_context().tower_id)

    with in_scope(3) as strategy:
        changed = strategy.group(strategy.call_for_each_tower(tower))
    started(session8).run(changed)
    (variable,) = tf.global_variables()
    assert [v.tolist() for v in session8.run(variable.components)] == [wanted(method)] * 3


@pytest.mark.parametrize("aggregation", [SUM, MEAN])
@pytest.mark.parametrize("method", sorted(CHANGES.keys() - set(TO_AGGREGATE)))
def test_in_towers_what_cannot_be_aggregated_is_refused(graph, method, aggregation):
    with in_scope() as strategy, pytest.raises(StrategyError, match=f"a tower calls {method} of v, whose towers are"):
        strategy.call_for_each_tower(lambda: change(make(aggregation), method))


@pytest.mark.parametrize("method", CHANGES)
def test_a_tower_changes_its_own_of_variables_that_are_local_to_towers(session8, method):
    with in_scope(2) as strategy:
        changed = strategy.call_for_each_tower(lambda: change(make(SUM, synchronization=ON_READ), method))
        (variable,) = tf.global_variables()
        if method != "assign":
            with pytest.raises(StrategyError, match=f"{method} of v, which is local to towers, may only be called in"):
                change(variable, method)
    started(session8)
    session8.run(changed.get(devices_of(2)[1]))
    assert [v.tolist() for v in values(session8, variable)] == [START, wanted(method)]
