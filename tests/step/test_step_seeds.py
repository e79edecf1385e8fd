"""Seeds by step and place: which calls get one, which share it, and what a part that is computed again draws."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.dropout import Dropout
from tpack.step.step_seeds import begin_at_step, let_seeds_follow_steps, uniform_of_step
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import TowerContext
from tpack.train.trainer import Trainer
from tpack.train.trainers import SimpleTrainer


def tower(index=0, is_training=True, **kwargs):
    return TowerContext(f"tower{index}", is_training, index=index, total=2, **kwargs)


def drawn(kind, seed=None):
    """Return two numbers, or None where no step tells runs apart."""
    uniform = uniform_of_step(kind, seed)
    return None if uniform is None else uniform([2])


def values(*tensors):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


@pytest.fixture
def counted(graph):
    """A graph whose training towers run once in each step."""
    tf.set_random_seed(7)
    let_seeds_follow_steps()
    return graph


def test_a_seed_is_another_at_each_step_call_tower_kind_and_scope(counted):
    seeds = []
    for index in range(2):
        with tower(index):
            seeds += [drawn("Dropout"), drawn("Dropout"), drawn("Noise"), drawn("Dropout", 3)]
            with tf.variable_scope("inner"):
                seeds.append(drawn("Dropout"))
    raise_step = tf.assign_add(get_global_step_var(), 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(seeds)
        session.run(raise_step)
        second = session.run(seeds)
    assert len({tuple(seed) for seed in [*first, *second]}) == 2 * len(seeds)


def test_the_same_program_gets_the_same_seeds_however_far_it_is(graph):
    def seeds(num_steps, seed):
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            let_seeds_follow_steps()
            begin_at_step(num_steps)
            with tower():
                return values(drawn("Dropout"), drawn("Dropout", 5))

    np.testing.assert_array_equal(seeds(0, 1), seeds(3, 1))
    assert not np.array_equal(seeds(0, 1), seeds(0, 2))
    # Without a seed of the graph, that of the operation is all there is.
    without = [seeds(number, None) for number in (0, 3)]
    assert not np.array_equal(without[0][0], without[1][0])
    np.testing.assert_array_equal(without[0][1], without[1][1])


@pytest.mark.parametrize(("seed", "op_seed"), [(1, None), (None, 4), (1, 4)])
def test_the_graph_seed_is_another_for_each_step_of_resumption(graph, seed, op_seed):
    def noise(num_steps):
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            begin_at_step(num_steps)
            return values(tf.random_normal([3], seed=op_seed))[0].tobytes()

    assert noise(0) == noise(0) != noise(5) == noise(5) != noise(6)


def test_a_seed_that_the_model_sets_itself_counts(counted):
    begin_at_step(3)
    tf.set_random_seed(8)
    with tower():
        own = values(drawn("Dropout"))
    with tf.Graph().as_default():
        tf.set_random_seed(8)
        let_seeds_follow_steps()
        with tower():
            np.testing.assert_array_equal(values(drawn("Dropout")), own)


def test_nothing_follows_steps_where_steps_do_not_tell_runs_apart(counted):
    assert drawn("Dropout") is None
    with tower(is_training=False):
        assert drawn("Dropout") is None
    with tf.Graph().as_default(), tower():
        assert drawn("Dropout") is None


def test_nothing_follows_steps_in_a_loop_or_function_unlike_in_a_condition(counted):
    found = {}

    def note(where):
        found[where] = drawn("Dropout")
        return tf.constant(0)

    with tower():
        tf.while_loop(lambda i: i < 3, lambda i: i + 1 + note("loop"), [0])
        tf.function(lambda: note("function"), autograph=False)()
        chosen = tf.cond(tf.placeholder_with_default(True, []), lambda: drawn("Dropout"), lambda: tf.zeros([2]))
    assert found["loop"] is None
    assert found["function"] is None
    np.testing.assert_array_equal(values(chosen), values(chosen))


def test_a_loop_drops_something_else_in_each_round(counted):
    with tower():
        rows = tf.map_fn(lambda row: Dropout("drop", row), tf.ones([5, 64]))
    assert len({row.tobytes() for row in values(rows)[0]}) == 5


@pytest.mark.parametrize("name", ["drop", None])
def test_a_part_that_is_computed_again_drops_the_same(counted, name):
    x = tf.ones([100])
    args = [name] if name else []
    with tower():
        part = tf.recompute_grad(lambda x: Dropout(*args, x * x, rate=0.5))
        y = part(x)
        grad = tf.gradients(y, x)[0]
        other = Dropout("other", x, rate=0.5)
    got, gradient, elsewhere = values(y, grad, other)
    assert 20 < np.count_nonzero(got) < 80
    np.testing.assert_array_equal(gradient, 2 * got)
    assert not np.array_equal(elsewhere, got)


def test_parts_that_cannot_be_told_apart_are_refused(counted):
    with tower():
        x = tf.ones([10])
        y = tf.recompute_grad(lambda x: Dropout(Dropout(x, rate=0.5), rate=0.5))(x)
        with pytest.raises(ConfigError, match="Dropout is computed again for its gradient, .* has 2 of it"):
            tf.gradients(y, x)


class OwnStep(Trainer):
    def run_step(self):
        raise NotImplementedError


@pytest.mark.parametrize(("trainer", "follows"), [(SimpleTrainer, True), (OwnStep, False)])
def test_trainers_whose_steps_are_one_run_let_seeds_follow_them(graph, trainer, follows):
    trainer()
    with tower():
        assert (drawn("Dropout") is not None) == follows
