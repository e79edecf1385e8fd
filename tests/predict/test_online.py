"""Prediction in an existing session: values, checks of inputs, which session is used."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataPointError, WrongTypeError
from tpack.predict import OnlinePredictor


@pytest.fixture
def tensors(graph):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.int32, [], name="y")
    return [x, y], [x * tf.cast(y, tf.float32), y + 1]


def test_outputs_are_those_of_session_run(tensors, session8, rng):
    inputs, outputs = tensors
    predictor = OnlinePredictor(inputs, outputs)
    for size in (3, 1, 0):
        x = rng.random([size, 2])
        product, successor = predictor(x, 3)
        np.testing.assert_array_equal(product, x.astype(np.float32) * 3)
        assert successor == 4


def test_return_input_gives_both(tensors, session8):
    (dp, (_, successor)) = OnlinePredictor(*tensors, return_input=True)([[1, 2]], 3)
    assert dp == ([[1, 2]], 3)
    assert successor == 4


def test_the_session_is_the_default_one_at_each_call(graph):
    with tf.variable_scope("", use_resource=True):
        variable = tf.get_variable("v", [], tf.float32)
    predictor = OnlinePredictor([], [variable.read_value()])
    sessions = [tf.Session(), tf.Session()]
    for value, session in enumerate(sessions):
        variable.load(float(value), session)
    for value in (0, 1, 0):
        with sessions[value].as_default():
            assert predictor() == [value]


def test_a_session_that_is_given_wins(graph, session8):
    with tf.variable_scope("", use_resource=True):
        variable = tf.get_variable("v", [], tf.float32)
    output = variable.read_value()
    with tf.Session(graph=graph) as other:
        variable.load(5.0, other)
        with session8.as_default():
            assert OnlinePredictor([], [output], sess=other)() == [5.0]


def test_no_session_is_an_error(tensors):
    with pytest.raises(ConfigError, match="has no session and there is no default one"):
        OnlinePredictor(*tensors)([[1, 2]], 3)


@pytest.mark.parametrize(
    ("dp", "message"),
    [
        (([[1, 2]],), r"OnlinePredictor got 1 inputs: expected 2 \(x, y\)"),
        (([1, 2], 3), r"OnlinePredictor: input 0 \('x'\) has rank 1 .*, expected rank 2"),
        (([[1, 2]], 3.5), r"OnlinePredictor: input 1 \('y'\) has dtype float64 .*, expected int32"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(tensors, dp, message):
    with pytest.raises(DataPointError, match=message):
        OnlinePredictor(*tensors)(*dp)


@pytest.mark.parametrize("nested", [False, True])
def test_tensors_of_a_graph_are_no_values(tensors, nested):
    given = tf.zeros([2])
    wanted = r"OnlinePredictor: input 0 \('x'\) is a .* without a value: expected an array; use session.run"
    with pytest.raises(DataPointError, match=wanted):
        OnlinePredictor(*tensors)([given] if nested else given, 3)


def test_only_tensors_can_be_used(tensors):
    inputs, outputs = tensors
    with pytest.raises(WrongTypeError, match=r"^OnlinePredictor got input_tensors\[0\]="):
        OnlinePredictor(["x"], outputs)
    with pytest.raises(ConfigError, match=r"output_tensors\[\d\]=.*: expected a tensor"):
        OnlinePredictor(inputs, [outputs[0].op])


def test_a_session_that_was_closed_and_inputs_that_are_missing_are_named(graph):
    x, z = tf.placeholder(tf.float32, [], "x"), tf.placeholder(tf.float32, [], "z")
    with_default = tf.placeholder_with_default(1.0, [], "with_default")
    session = tf.Session()
    predict = OnlinePredictor([x], [x + with_default], sess=session)
    unused = OnlinePredictor([x], [x * 2.0], sess=session)
    assert predict(2.0) == [3.0]
    session.close()
    for closed in (predict, predict, unused):
        with pytest.raises(ConfigError, match="the session of this OnlinePredictor was closed: use a new one"):
            closed(2.0)
    with pytest.raises(ConfigError, match="the outputs total need the input z too: the inputs are x"):
        OnlinePredictor([x], [tf.add(x, z, name="total")])
    # What is fed itself needs nothing.
    total = tf.add(x, z)
    assert OnlinePredictor([total], [total * 2.0, total]).output_tensors[1] is total


@pytest.mark.parametrize("arguments", [{"return_input": "no"}, {"sess": 5}])
def test_other_arguments_are_checked_too(graph, arguments):
    x = tf.placeholder(tf.float32, [], "x")
    with pytest.raises(ConfigError, match=f"OnlinePredictor got {next(iter(arguments))}="):
        OnlinePredictor([x], [x + 1.0], **arguments)
