"""Moving averages are those that numpy computes, from the first step on."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.summary import MOVING_SUMMARY_OPS_KEY, add_moving_summary, add_named_moving_summary
from tpack.tower.context import PredictTowerContext, TrainTowerContext


def weighted_mean(values: Any, decay: float) -> Any:
    """Return the mean of a sequence with weights that decay into the past."""
    return np.average(values, axis=0, weights=decay ** np.arange(len(values))[::-1])


def update(session: Any, feeds: Any) -> None:
    session.run(tf.get_collection(MOVING_SUMMARY_OPS_KEY), feeds)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95])
def test_averages_are_weighted_means_from_the_first_value_on(session8: Any, rng: Any, decay: float) -> None:
    x, y = (tf.placeholder(tf.float32, [], name=name) for name in "xy")
    averages = add_moving_summary(x, [y, tf.cast(y, tf.int32, name="z")], decay=decay)
    session8.run(tf.local_variables_initializer())
    assert np.isnan(session8.run(averages)).all()
    values = (rng.standard_normal((6, 2)) * 10).astype("float32")
    values = np.column_stack([values, values[:, 1].astype(int)])
    for step in range(6):
        update(session8, {x: values[step, 0], y: values[step, 1]})
        expected = weighted_mean(values[: step + 1], decay)
        np.testing.assert_allclose(session8.run(averages), expected, rtol=1e-4, atol=1e-5)
        written = read_summaries(session8)
        assert list(written) == ["x", "y", "z"]
        np.testing.assert_allclose(list(written.values()), expected, rtol=1e-4, atol=1e-5)


def test_first_average_is_the_first_value(session8: Any) -> None:
    (average,) = add_moving_summary(tf.constant(3.25))
    session8.run(tf.local_variables_initializer())
    update(session8, {})
    assert session8.run(average) == 3.25


def test_names_lose_the_main_towers_scope(session8: Any) -> None:
    with TrainTowerContext("tower0") as tower, tf.variable_scope("net"):
        add_moving_summary(tf.constant(1.0, name="cost"))
    session8.run(tf.local_variables_initializer())
    assert list(read_summaries(session8)) == ["net/cost"]
    assert tower.recorder.variables == []


@pytest.mark.parametrize(
    "context", [lambda: TrainTowerContext("tower1", index=1, total=2), lambda: PredictTowerContext("infer")]
)
def test_other_towers_do_nothing(graph: Any, context: Any) -> None:
    with context():
        cost = tf.constant(1.0)
        before = graph.get_operations()
        assert add_moving_summary(cost) == []
        assert graph.get_operations() == before


def test_variable_is_a_local_resource_variable_whatever_the_scope(graph: Any) -> None:
    with tf.variable_scope("a", reuse=True), tf.device("/device:CPU:0"):
        add_moving_summary(tf.constant(1.0), collection="mine")
    (variable,) = tf.local_variables()
    assert variable.handle.op.type == "VarHandleOp"
    assert tf.global_variables() == tf.trainable_variables() == []
    assert len(tf.get_collection("mine")) == 1
    assert tf.get_collection(MOVING_SUMMARY_OPS_KEY) == []


def test_averages_of_one_call_are_updated_by_one_operation(graph: Any) -> None:
    add_moving_summary([tf.constant(1.0), tf.constant(2.0)], tf.constant(3.0))
    assert len(tf.get_collection(MOVING_SUMMARY_OPS_KEY)) == 1


def test_nan_stays_in_its_own_average(session8: Any) -> None:
    averages = add_moving_summary(tf.constant(np.nan), tf.constant(1.0))
    session8.run(tf.local_variables_initializer())
    update(session8, {})
    np.testing.assert_array_equal(session8.run(averages), [np.nan, 1])


def test_nothing_gives_nothing(graph: Any) -> None:
    assert add_moving_summary() == add_moving_summary([]) == add_named_moving_summary([]) == []
    assert graph.get_operations() == []


def test_names_of_the_callers_choice(session8: Any) -> None:
    add_named_moving_summary([("grad/a", tf.constant(1.0)), ("grad/b", tf.constant(2.0))])
    session8.run(tf.local_variables_initializer())
    update(session8, {})
    assert read_summaries(session8) == {"grad/a": 1, "grad/b": 2}


def test_tensor_that_is_no_scalar_is_named(graph: Any) -> None:
    with pytest.raises(GraphBuildError, match=r"x:0 of shape \(3,\)"):
        add_moving_summary(tf.constant(1.0), tf.zeros([3], name="x"))
    assert tf.local_variables() == []


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_decay_outside_of_0_to_1_is_rejected(graph: Any, decay: float) -> None:
    with pytest.raises(ConfigError, match=r"got decay=.*: expected a number in \[0, 1\)"):
        add_moving_summary(tf.constant(1.0), decay=decay)
