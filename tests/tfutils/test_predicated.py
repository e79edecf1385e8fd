"""What is behind a closed gate does not run, and what waits for it does."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE, make_model
from tests.helpers.sessions import cpu_session
from tpack.tfutils.predicated import Gate


@pytest.fixture
def is_open(graph):
    return tf.placeholder(tf.bool, [])


def started(num_cpus=2):
    session = cpu_session(num_cpus=num_cpus)
    session.run(tf.global_variables_initializer())
    return session


def test_what_is_behind_the_gate_runs_while_it_is_open(is_open):
    gate = Gate(is_open)
    variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    with tf.device("/cpu:1"):
        other = tf.get_variable("other", initializer=1.0, use_resource=True)
    with gate.behind():
        update = variable.assign_add([1.0, 1.0], read_value=False)
        with tf.device("/cpu:1"), tf.control_dependencies([update]):
            behind = other.assign(other * 2, read_value=False)
        late = tf.get_variable("late", initializer=3.0, use_resource=True)
    done = gate.wait_for([update, behind])
    with started() as session:
        for opened, expected in ((False, [1, 2, 1]), (True, [2, 3, 2]), (False, [2, 3, 2])):
            assert session.run(done, {is_open: opened}) == opened
            np.testing.assert_array_equal(np.hstack(session.run([variable, other])), expected)
        assert session.run(late) == 3
    assert behind.device == "/device:CPU:1"


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_no_optimizer_changes_anything_while_it_is_closed(is_open, name):
    variables, gradients = make_model("model", seed=0)
    gate = Gate(is_open)
    with gate.behind():
        update = OPTIMIZERS[name]().apply_gradients(zip(gradients, variables, strict=True))
    done = gate.wait_for([update])
    with started() as session:
        session.run(done, {is_open: True})
        before = session.run(tf.global_variables())
        session.run(done, {is_open: False})
        for old, new in zip(before, session.run(tf.global_variables()), strict=True):
            np.testing.assert_array_equal(old, new)
        session.run(done, {is_open: True})
        assert not np.array_equal(before[0], session.run(variables[0]))


def test_summaries_of_what_is_behind_are_empty_while_it_is_closed(is_open):
    gate = Gate(is_open)
    tf.summary.scalar("before", tf.constant(1.0))
    with gate.behind():
        tf.summary.scalar("behind", tf.constant(2.0))
        with tf.control_dependencies(None):
            tf.summary.scalar("beside", tf.constant(3.0))
    merged = tf.summary.merge_all()

    def tags(opened):
        return [value.tag for value in tf.Summary.FromString(session.run(merged, {is_open: opened})).value]

    with started() as session:
        assert tags(True) == ["before", "behind", "beside"]
        assert tags(False) == ["before", "beside"]
