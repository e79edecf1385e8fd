import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.multi_worker.codecs.rank_state import RankState, rank_variables_here, run_updates
from tpack.tfutils.graph_lookup import get_global_step_var

DEVICE = "/device:CPU:0"


def test_state_is_local_and_changes_in_valid_steps_alone(session8):
    state = RankState(DEVICE, 1, 2)
    error = state.variable("error", [2], tf.float64)
    factor = state.variable("factor", [2], initializer=tf.ones_initializer())
    assert rank_variables_here() == [error, factor]
    assert tf.global_variables() == []
    state.update(error, error.read_value() + 1.0)
    part = state.of_part(0)
    part.update(factor, factor.read_value() * 2.0)
    assert state.num_updates == 2
    is_valid = tf.placeholder(tf.bool, [])
    done = run_updates(state.take_updates(), is_valid)
    assert state.num_updates == 0
    session8.run(tf.local_variables_initializer())
    for valid, wanted in ((True, (1, 2)), (False, (1, 2)), (True, (2, 4))):
        session8.run(done, {is_valid: valid})
        assert np.array_equal(session8.run([error, factor]), [[wanted[0]] * 2, [wanted[1]] * 2])


def test_updates_from_a_number_on_can_be_taken(graph):
    state = RankState(DEVICE, 1, 2)
    first, second = (state.variable("v", []) for _ in range(2))
    state.update(first, tf.constant(1.0))
    state.update(second, tf.constant(1.0))
    assert [variable for variable, _ in state.take_updates(1)] == [second]
    assert [variable for variable, _ in state.take_updates()] == [first]


def test_seeds_differ_between_workers_buckets_and_parts(graph):
    state = RankState(DEVICE, 0, 0)
    named = [state.named(name, rank) for name in ("a", "b") for rank in range(2)]
    states = [*named, *(each.of_part(n) for each in named for n in range(2))]
    assert len({each.seed for each in states}) == len(states)
    assert named[0].common_seed == named[1].common_seed != named[2].common_seed


def test_the_step_is_that_of_the_training(session8):
    state = RankState(DEVICE, 1, 2)
    step = state.step
    session8.run(tf.global_variables_initializer())
    assert session8.run(step) == 0
    session8.run(get_global_step_var().assign(7))
    assert session8.run(step) == 7


def test_a_variable_of_an_open_shape_is_refused(graph):
    with pytest.raises(ReductionError, match="variable 'error' got shape=.*expected a fully defined shape"):
        RankState(DEVICE, 1, 2).variable("error", [None, 2])
