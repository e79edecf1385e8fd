"""The global step lies at the top of the graph, whatever scope asks for it first."""

from contextlib import ExitStack
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.graph_lookup import get_global_step_value, get_global_step_var
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.getters import override_to_local_variable


def check_is_global_step(step: Any) -> None:
    assert step.name == "global_step:0"
    assert step.dtype == tf.int64
    assert step.shape == []
    assert "CPU:0" in step.device
    assert not step.trainable
    assert step.handle.op.type == "VarHandleOp"
    assert not step.initializer.control_inputs
    assert tf.train.get_global_step() is step
    assert tf.global_variables() == [step]


SCOPES = {
    "plain": lambda: [],
    "variable scope": lambda: [tf.variable_scope("a")],
    "reuse": lambda: [tf.variable_scope("a", reuse=True)],
    "name scope": lambda: [tf.name_scope("a")],
    "device": lambda: [tf.device("/device:CPU:3")],
    "device function": lambda: [tf.device(lambda op: "/job:ps")],
    "getter": lambda: [override_to_local_variable()],
    "initializer": lambda: [tf.variable_scope("a", initializer=tf.ones_initializer(), dtype=tf.float64)],
    "control dependency": lambda: [tf.control_dependencies([tf.no_op()])],
    "training tower": lambda: [TrainTowerContext("tower1", "tower1", index=1, total=2)],
    "prediction tower": lambda: [PredictTowerContext("infer")],
}


@pytest.mark.parametrize("scope", SCOPES)
def test_global_step_is_the_same_in_every_scope(graph: Any, scope: str) -> None:
    with ExitStack() as stack:
        for context in SCOPES[scope]():
            stack.enter_context(context)
        step = get_global_step_var()
    check_is_global_step(step)
    assert get_global_step_var() is step


def test_global_step_in_a_loop_belongs_to_the_graph_around_it(graph: Any) -> None:
    tf.while_loop(lambda k: k < 3, lambda k: k + tf.cast(get_global_step_var(), tf.int32), [tf.constant(0)])
    check_is_global_step(get_global_step_var())


def test_global_step_is_not_recorded_as_the_towers_own(graph: Any) -> None:
    with TrainTowerContext("tower0") as tower:
        get_global_step_var()
    assert tower.recorder.variables == []


def test_global_step_of_tensorflow_is_taken(graph: Any) -> None:
    step = tf.train.create_global_step()
    assert get_global_step_var() is step


def test_variable_of_that_name_is_taken(graph: Any) -> None:
    step = tf.get_variable("global_step", [], tf.int64, trainable=False, use_resource=True)
    assert get_global_step_var() is step
    assert tf.train.get_global_step() is step


def test_two_global_steps_are_an_error(graph: Any) -> None:
    for name in "ab":
        tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.get_variable(name, [], tf.int64, use_resource=True))
    with pytest.raises(GraphBuildError, match="found a:0, b:0"):
        get_global_step_var()


def test_global_step_without_a_graph_is_an_error() -> None:
    with pytest.raises(GraphBuildError, match="not eager execution"):
        get_global_step_var()


def test_value_is_read_from_the_default_session_of_a_finalized_graph(session8: Any) -> None:
    step = get_global_step_var()
    session8.run(step.initializer)
    session8.run(step.assign_add(5))
    session8.graph.finalize()
    assert get_global_step_value() == 5
    assert type(get_global_step_value()) is int


def test_value_without_a_session_is_an_error(graph: Any) -> None:
    with pytest.raises(ConfigError, match="needs a default session"):
        get_global_step_value()


def test_value_without_a_global_step_is_an_error(session8: Any) -> None:
    with pytest.raises(ConfigError, match="has no global step"):
        get_global_step_value()
