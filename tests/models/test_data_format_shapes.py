"""Joining tensors as a layer."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.data_format import ConcatWith


def test_one_or_several_tensors_follow_the_first(graph: Any) -> None:
    a, b, c = (tf.fill([2, n], float(n)) for n in (1, 2, 3))
    with tf.Session() as session:
        assert session.run(ConcatWith(a, b, 1)).tolist() == [[1, 2, 2]] * 2
        assert session.run(ConcatWith("join", a, [b, c], dim=1)).tolist() == [[1, 2, 2, 3, 3, 3]] * 2
