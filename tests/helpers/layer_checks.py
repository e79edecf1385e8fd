"""Hold a layer to an oracle: its values to numpy, its gradients to differences, float32 to float64."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

FORMATS = ("channels_last", "channels_first")

Oracle = Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]


def to_format(x: np.ndarray, data_format: str) -> np.ndarray:
    """Return a feature map, given with the channels last, in a data format."""
    return x.transpose(0, 3, 1, 2) if data_format == "channels_first" and x.ndim == 4 else x


def assert_layer(
    build: Callable[[Any, str], Any], x: np.ndarray, oracle: Oracle, data_format: str = "channels_last"
) -> None:
    """Check a layer in a data format: the values in both dtypes, the gradients, and the static shape.

    Args:
        build: makes the layer's output of its input and the data format.
        x: the input with the channels last, in float64.
        oracle: returns the output of an input, both with the channels last, by the values of the variables by name.
        data_format: the format to check in.
    """
    grads = {}
    for dtype in (tf.float64, tf.float32):
        with tf.Graph().as_default(), tf.Session() as session:
            value = to_format(x, data_format)
            inputs = tf.placeholder(dtype, [None, *value.shape[1:]])
            outputs = build(inputs, data_format)
            assert outputs.dtype == dtype
            variables = randomize_variables(session)
            got = session.run(outputs, {inputs: value})
            wanted = to_format(oracle(x, variables), data_format)
            assert outputs.shape.as_list() == [None, *wanted.shape[1:]]
            tolerance = 1e-10 if dtype == tf.float64 else 1e-4
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
            grads[dtype] = gradients(session, outputs, {inputs: value}, check=dtype == tf.float64)
    for wide, narrow in zip(grads[tf.float64], grads[tf.float32], strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=1e-3, atol=1e-4)


def randomize_variables(session: Any) -> dict[str, np.ndarray]:
    """Give every variable a random value, the same in every run; return them by name."""
    rng = np.random.default_rng(1)
    session.run(tf.global_variables_initializer())
    values = {}
    for variable in tf.global_variables():
        assert variable.dtype.base_dtype.is_floating
        values[variable.op.name] = rng.normal(size=variable.shape.as_list())
        variable.load(values[variable.op.name], session)
    return values


def gradients(session: Any, outputs: Any, feed: Mapping[Any, np.ndarray], *, check: bool = True) -> list[np.ndarray]:
    """Return the gradients of a weighted sum of ``outputs`` by what is fed and by all trainable variables.

    Args:
        session: has initialised variables.
        outputs: float64 where it is to be checked.
        feed: arrays for placeholders.
        check: hold the gradients to the difference quotients in a few random directions.
    """
    rng = np.random.default_rng(2)
    variables = tf.trainable_variables()
    weights = rng.normal(size=session.run(outputs, feed).shape)
    loss = tf.reduce_sum(outputs * tf.constant(weights, outputs.dtype))
    grads = session.run(tf.gradients(loss, [*feed, *variables]), feed)
    for _ in range(3 if check else 0):
        directions = [rng.normal(size=grad.shape) for grad in grads]
        slope = sum(float(np.sum(grad * direction)) for grad, direction in zip(grads, directions, strict=True))
        step = 1e-6
        high, low = (_loss_at(session, loss, feed, variables, directions, h) for h in (step, -step))
        np.testing.assert_allclose((high - low) / (2 * step), slope, rtol=1e-5, atol=1e-6)
    return grads


def _loss_at(
    session: Any, loss: Any, feed: Mapping[Any, np.ndarray], variables: list[Any], directions: list[Any], step: float
) -> float:
    moved = {p: value + step * d for (p, value), d in zip(feed.items(), directions, strict=False)}
    before = session.run(variables)
    for variable, value, direction in zip(variables, before, directions[len(feed) :], strict=True):
        variable.load(value + step * direction, session)
    result = session.run(loss, moved)
    for variable, value in zip(variables, before, strict=True):
        variable.load(value, session)
    return float(result)
