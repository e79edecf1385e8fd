"""Train a model with a dense and a sparse gradient by any optimizer."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import make_model


def train_model(make_step: Any, num_steps: int = 5) -> list[Any]:
    """Train the model in a new graph with the step that `make_step(variables, grads)` builds; return the weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables, grads = make_model("model", seed=0)
        step = make_step(variables, list(zip(grads, variables, strict=True)))
        session.run(tf.global_variables_initializer())
        for _ in range(num_steps):
            session.run(step)
        return session.run(variables)


def assert_weights_equal(actual: list[Any], expected: list[Any]) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
