"""The factor of the cost: how it grows, shrinks and counts, against the rules written out in Python."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.loss_scale import DynamicLossScale
from tpack.graph_builder.precision import LossScaling


def by_hand(scaling, finite):
    """Return (scale, finite steps in a row, skipped steps) after each step."""
    scale, count, skipped, states = scaling.initial, 0, 0, []
    for is_finite in finite:
        if not is_finite:
            scale, count, skipped = max(scale / scaling.factor, scaling.smallest), 0, skipped + 1
        else:
            count += 1
            if count == scaling.growth_steps:
                scale, count = min(scale * scaling.factor, scaling.largest), 0
        states.append((scale, count, skipped))
    return states


def test_factor_and_counters_follow_the_rules(graph):
    scaling = LossScaling(initial=4.0, growth_steps=3, factor=2.0, smallest=1.0, largest=16.0)
    finite = [True] * 10 + [False] * 6 + [True, True, False, True, True, True, True]
    first, second = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    loss_scale = DynamicLossScale(scaling)
    loss_scale.observe(first)
    loss_scale.observe(second)
    update = loss_scale.update()
    states = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number, is_finite in enumerate(finite):
            before = session.run(loss_scale.scale)
            # One overflow is enough, whichever tower it is in.
            feeds = {first: is_finite or number % 2 == 0, second: is_finite or number % 2 == 1}
            used, _ = session.run([loss_scale.scale, update], feeds)
            assert used == before
            states.append(tuple(session.run(loss_scale.variables)))
    assert states == by_hand(scaling, finite)
    assert {state[0] for state in states} == {1.0, 2.0, 4.0, 8.0, 16.0}


def test_state_is_saved_and_not_trained(graph):
    loss_scale = DynamicLossScale(LossScaling())
    assert [v.op.name for v in tf.global_variables()] == [
        "loss_scale/scale",
        "loss_scale/finite_steps",
        "loss_scale/skipped_steps",
    ]
    assert tf.trainable_variables() == []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(loss_scale.variables) == (np.float32(2**15), 0, 0)


def test_nothing_observed_is_an_error(graph):
    with pytest.raises(GraphBuildError, match="observed no gradients"):
        DynamicLossScale(LossScaling()).update()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth_steps": 0}, "got growth_steps=0: expected an integer of at least 1"),
        ({"growth_steps": 2.5}, "^LossScaling got growth_steps=2.5: expected an integer"),
        ({"growth_steps": True}, "^LossScaling got growth_steps=True: expected an integer"),
        ({"factor": 1.0}, "got factor=1.0: expected a number above 1"),
        ({"initial": 0.5}, "got smallest=1.0, initial=0.5 .*: expected 0 < smallest <= initial <= largest"),
        ({"initial": float("nan")}, "^LossScaling got initial=nan: expected a number"),
        ({"largest": float("inf")}, "expected 0 < smallest <= initial"),
    ],
)
def test_numbers_out_of_range_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        LossScaling(**options)
