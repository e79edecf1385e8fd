"""Comparisons and collections as code of Keras's users expects them; places in Keras are in ``test_keras_values``."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.keras import elementwise_equality, filter_collection


def test_tensors_are_compared_by_value_in_a_block_and_by_identity_after_it(session8):
    one, other = tf.constant([1, 2]), tf.constant([1, 3])
    with elementwise_equality(), elementwise_equality():
        equal, not_equal = one == other, one != np.array([1, 3])
        # What is no value is compared as before.
        assert not one == "text"  # noqa: SIM201 (the operator is the test)
    np.testing.assert_array_equal(session8.run([equal, not_equal]), [[True, False], [False, True]])
    assert one == one  # noqa: PLR0124 (the operator is the test)
    assert one != other


def test_an_inner_block_ends_no_outer_one(graph):
    one = tf.constant(1)
    with elementwise_equality():
        with elementwise_equality():
            pass
        assert tf.is_tensor(one == tf.constant(1))
    assert not tf.is_tensor(one == tf.constant(1))


def test_a_filtered_collection_keeps_its_items(graph):
    for value in range(4):
        tf.add_to_collection("numbers", value)
        tf.add_to_collection("others", value)
    filter_collection(graph, "numbers", lambda value: value % 2 == 0)
    assert tf.get_collection("numbers") == [0, 2]
    assert tf.get_collection("others") == tf.get_collection_ref("numbers") == [0, 1, 2, 3]
