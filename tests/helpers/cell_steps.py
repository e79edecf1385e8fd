"""One step of a recurrent cell with random weights, to be held against a formula in numpy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

BATCH, DEPTH = 2, 4


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


@dataclass
class Step:
    """A step.

    Attributes:
        x: the inputs.
        states: the tensors of the state before it.
        weights: the variables, by their names below the cell's scope.
        output: what came out.
        new_states: the tensors of the state after it.
    """

    x: np.ndarray
    states: list[np.ndarray]
    weights: dict[str, np.ndarray]
    output: np.ndarray
    new_states: list[np.ndarray]

    @property
    def joined(self) -> np.ndarray:
        """The inputs and the last of the state, side by side."""
        return np.concatenate([self.x, self.states[-1]], -1)

    def check(self, output: np.ndarray, new_states: list[np.ndarray]) -> None:
        """Check what came out."""
        np.testing.assert_allclose(self.output, output, rtol=1e-9, atol=1e-11)
        assert len(self.new_states) == len(new_states)
        for got, wanted in zip(self.new_states, new_states, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


def one_step(
    make: Callable[[], Any],
    rng: np.random.Generator,
    *,
    shape: tuple[int, ...] = (DEPTH,),
    dtype: Any = tf.float64,
    as_initialized: bool = False,
) -> Step:
    """Compute a step of a cell in a graph of its own.

    Args:
        make: returns the cell.
        rng: gives the numbers.
        shape: of an input, without the batch.
        dtype: of everything.
        as_initialized: whether the variables keep what they are initialized with.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        cell = make()
        x = rng.normal(size=(BATCH, *shape)).astype(tf.as_dtype(dtype).as_numpy_dtype)
        zeros = tf.nest.flatten(cell.zero_state(BATCH, dtype))
        states = [rng.normal(size=zero.shape.as_list()).astype(x.dtype) for zero in zeros]
        packed = tf.nest.pack_sequence_as(cell.state_size, [tf.constant(state) for state in states])
        with tf.variable_scope("at"):
            output, new_state = cell(tf.constant(x), packed)
        session.run(tf.global_variables_initializer())
        for variable in [] if as_initialized else tf.global_variables():
            variable.load(rng.normal(size=variable.shape.as_list()), session)
        weights = {variable.op.name.split("/", 2)[-1]: variable for variable in tf.global_variables()}
        return Step(x, states, *session.run([weights, output, tf.nest.flatten(new_state)]))
