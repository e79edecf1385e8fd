"""Saliency maps of a small network, against numpy."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tfutils.symbolic_functions import guided_relu, saliency_map


def network(x: Any, first: np.ndarray, second: np.ndarray) -> Any:
    return tf.nn.relu(x @ tf.constant(first)) @ tf.constant(second)


def maps(x: np.ndarray, first: np.ndarray, second: np.ndarray, *, guided: bool) -> np.ndarray:
    """Return the saliency map of each row by hand."""
    hidden = x @ first
    best = np.argmax(np.maximum(hidden, 0) @ second, axis=1)
    gradient = second[:, best].T * (hidden > 0)
    return (np.maximum(gradient, 0) if guided else gradient) @ first.T


def test_maps_are_gradients_of_the_largest_output(session8: Any, rng: np.random.Generator) -> None:
    x, first, second = (rng.normal(size=shape).astype("float32") for shape in [(6, 5), (5, 8), (8, 3)])
    image = tf.constant(x)
    plain = saliency_map(network(image, first, second), image)
    with guided_relu():
        logits = network(image, first, second)
    guided = saliency_map(logits, image, name="guided")
    after = saliency_map(network(image, first, second), image, name="after")
    assert (plain.op.name, guided.op.name) == ("saliency_map", "guided")
    values = session8.run([plain, guided, after])
    expected = maps(x, first, second, guided=False), maps(x, first, second, guided=True)
    np.testing.assert_allclose(values[0], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values[1], expected[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(values[2], values[0])
    assert not np.allclose(*expected)


def test_a_second_graph_may_use_guided_relu(graph: Any) -> None:
    with guided_relu():
        y = tf.nn.relu(tf.constant([[1.0, -1.0]]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.gradients(-y, y.op.inputs[0])[0]), [[0, 0]])
