"""Moving averages of mirrored variables, against TensorFlow's of plain ones."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import in_scope, started, tower_number
from tpack.distribute.optimizer import DistributedMovingAverage
from tpack.distribute.variables.replicated import MirroredVariable
from tpack.errors import ConfigError

VALUES = np.float32([[3, 4], [0, 1], [-5, 8]])


def make(**options):
    with tf.variable_scope("scope", reuse=tf.AUTO_REUSE):
        return tf.get_variable("v", initializer=np.float32([1, 2]), **options)


def run_plain():
    """Return the averages of a plain variable that takes on values, from the first on, and their name."""
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        variable = make(use_resource=True)
        average = tf.train.ExponentialMovingAverage(0.75, num_updates=5)
        update = average.apply([variable])
        return averages_of(session, variable, average.average(variable), update), average.average(variable).op.name


def averages_of(session, variable, average, update):
    seen = [started(session).run(getattr(average, "components", average))]
    assign = variable.assign(tf.placeholder(tf.float32, [2], name="value"))
    for value in VALUES:
        session.run(assign, {"value:0": value})
        session.run(update)
        seen.append(session.run(getattr(average, "components", average)))
    return seen


@pytest.mark.parametrize(("where", "num_towers"), [("outside", 3), ("across", 3), ("in towers", 3), ("in towers", 1)])
def test_they_are_those_of_a_plain_variable(session8, where, num_towers):
    average = DistributedMovingAverage(0.75, 5)
    with in_scope(num_towers) as strategy:
        variable = make()
        if where == "in towers":
            update = strategy.call_for_each_tower(lambda: average.apply())
        elif where == "across":
            update = average.apply()
    if where == "outside":
        update = average.apply([variable])
    wanted, name = run_plain()
    got = average.average(variable)
    assert isinstance(update, tf.Operation)
    assert (got.op.name, average.average_name(variable)) == (name, name)
    assert isinstance(got, MirroredVariable) is (where != "outside")
    for value, expected in zip(averages_of(session8, variable, got, update), wanted, strict=True):
        np.testing.assert_allclose(value, np.broadcast_to(expected, np.shape(value)), rtol=1e-6)
    assert tf.trainable_variables() == tf.moving_average_variables()[:1] == [variable]


def test_they_are_where_the_variable_is_and_applied_again_the_same(graph):
    average = DistributedMovingAverage(0.5)
    with in_scope() as strategy:
        with strategy.colocate_vars_with(["/cpu:5", "/cpu:6"]):
            variable = make()
        average.apply([variable])
        first = average.average(variable)
        average.apply([variable])
    assert average.average(variable) is first
    assert first.devices == ["/device:CPU:5", "/device:CPU:6"]


def test_averages_of_a_plain_run_are_restored_into_all_mirrors(tmp_path):
    path = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        variable = make(use_resource=True)
        average = tf.train.ExponentialMovingAverage(0.5)
        update = average.apply([variable])
        started(session).run(variable.assign([3.0, 6.0]))
        session.run(update)
        tf.train.Saver().save(session, path)
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        average = DistributedMovingAverage(0.5)
        with in_scope(3):
            variable = make()
            average.apply()
        tf.train.Saver(average.variables_to_restore()).restore(session, path)
        assert [v.tolist() for v in session.run(variable.components)] == [[2.0, 4.0]] * 3


def test_a_tower_can_have_an_object_of_its_own(session8):
    with in_scope() as strategy:
        update = strategy.call_for_each_tower(lambda: DistributedMovingAverage(0.5).apply([make()]))
    variable = tf.moving_average_variables()[0]
    (average,) = [v for v in tf.global_variables() if v is not variable]
    started(session8).run(variable.assign([3.0, 6.0]))
    session8.run(update)
    assert [v.tolist() for v in session8.run(average.components)] == [[2.0, 4.0]] * 2


def test_tensors_are_averaged_outside_of_towers_only(session8):
    average = DistributedMovingAverage(0.5)
    tensor = tf.constant(4.0)
    update = average.apply([tensor])
    started(session8).run(update)
    assert session8.run(average.average(tensor)) == 2.0
    with in_scope() as strategy, pytest.raises(ConfigError, match="in a tower: expected variables"):
        strategy.call_for_each_tower(lambda: average.apply([tower_number()]))
