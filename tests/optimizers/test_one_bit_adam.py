import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.optimizers.one_bit_adam import OneBitAdam
from tpack.tfutils.graph_lookup import get_global_step_var

FREEZE, STEPS = 3, 6


def run(make, rng):
    """Return the variables after each of some steps with given gradients, in a graph of its own."""
    config = tf.ConfigProto()
    # Grappler multiplies constants beforehand, which changes the last bits.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        step = get_global_step_var()
        dense = tf.get_variable("dense", initializer=tf.constant([1.0, -2.0, 0.5]), use_resource=True)
        table = tf.get_variable("table", initializer=tf.ones([4, 2]), use_resource=True)
        fed, rows = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [2, 2])
        sparse = tf.IndexedSlices(rows, tf.constant([1, 3]), tf.constant([4, 2]))
        update = make().apply_gradients([(fed, dense), (sparse, table)], global_step=step)
        session.run(tf.global_variables_initializer())
        found = []
        for _ in range(STEPS):
            session.run(update, {fed: rng.normal(size=3), rows: rng.normal(size=[2, 2])})
            found.append(
                {
                    v.op.name: value
                    for v, value in zip(tf.global_variables(), session.run(tf.global_variables()), strict=True)
                }
            )
    return found


def test_it_is_adam_bit_by_bit_until_the_freeze_and_then_its_squares_stay():
    adam = run(lambda: tf.train.AdamOptimizer(0.1), np.random.default_rng(5))
    frozen = run(lambda: OneBitAdam(0.1, freeze_step=FREEZE), np.random.default_rng(5))
    for number, (wanted, found) in enumerate(zip(adam, frozen, strict=True)):
        assert wanted.keys() == found.keys()
        other = {name for name in wanted if not np.array_equal(wanted[name], found[name])}
        other -= {"beta2_power"} if number == FREEZE - 1 else set()
        assert other == (
            set() if number < FREEZE else {"dense", "table", "dense/Adam_1", "table/Adam_1", "beta2_power"}
        )
        if number >= FREEZE:
            for name in ("dense/Adam_1", "table/Adam_1", "beta2_power"):
                assert np.array_equal(found[name], frozen[FREEZE - 1][name])


def test_steps_after_the_freeze_are_those_of_the_formula():
    found = run(lambda: OneBitAdam(0.1, freeze_step=FREEZE), np.random.default_rng(5))
    before, after = found[FREEZE], found[FREEZE + 1]
    rate = 0.1 * np.sqrt(1 - 0.999**FREEZE) / (1 - 0.9 ** (FREEZE + 2))
    wanted = before["dense"] - rate * after["dense/Adam"] / (np.sqrt(after["dense/Adam_1"]) + 1e-8)
    np.testing.assert_allclose(after["dense"], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"freeze_step": 0}, "OneBitAdam got freeze_step=0: expected an integer of at least 1"),
        ({"freeze_step": 1, "beta1": 1.5}, "beta1"),
        ({"freeze_step": 1, "epsilon": -1.0}, "epsilon"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        OneBitAdam(0.1, **settings)


def test_a_beta_that_is_1_in_the_dtype_of_a_variable_is_refused(graph):
    variable = tf.get_variable("v", [2], tf.bfloat16, use_resource=True)
    with pytest.raises(ConfigError, match="OneBitAdam got beta2=0.999, which is 1 in the bfloat16"):
        OneBitAdam(0.1, freeze_step=1).apply_gradients([(tf.zeros([2], tf.bfloat16), variable)])
