import math
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import run, source
from tpack.reduction.slicing import concat_flat, split_evenly, split_flat, static_bytes


def test_static_bytes_joins_what_the_towers_know(graph: Any) -> None:
    column = [tf.placeholder(tf.float64, shape) for shape in (None, [None, 3], [2, None])]
    assert static_bytes(column) == 48
    assert static_bytes(column[:2]) == math.inf
    assert static_bytes([tf.zeros([], tf.bfloat16)]) == 2
    assert static_bytes([tf.zeros([4, 0])]) == 0


@pytest.mark.parametrize("hidden", [(), (1,), (0, 1, 2, 3)])
def test_split_flat_undoes_concat_flat(hidden: tuple[int, ...], rng: Any, session8: Any) -> None:
    values = [rng.standard_normal(shape) for shape in [(3, 4), (), (0, 2), (5,)]]
    tensors = [
        source(value, f"/device:CPU:{n}", static_shape=[None] * value.ndim if n in hidden else value.shape)
        for n, value in enumerate(values)
    ]
    with tf.device("/device:CPU:7"):
        flat = concat_flat(tensors)
        pieces = split_flat(flat, tensors)
    assert flat.device == "/device:CPU:7"
    assert [piece.device for piece in pieces] == [tensor.device for tensor in tensors]
    assert [piece.shape.as_list() for piece in pieces] == [tensor.shape.as_list() for tensor in tensors]
    flat, pieces = run(session8, (flat, pieces))
    assert np.array_equal(flat, np.concatenate([value.ravel() for value in values]))
    assert all(np.array_equal(*pair) for pair in zip(pieces, values, strict=True))


@pytest.mark.parametrize("static_shape", [None, [None]])
@pytest.mark.parametrize(("size", "sizes"), [(9, [2, 2, 2, 3]), (8, [2] * 4), (3, [0, 0, 0, 3]), (0, [0] * 4)])
def test_split_evenly_gives_the_last_piece_the_rest(
    size: int, sizes: list[int], static_shape: Any, session8: Any
) -> None:
    flat = source(np.arange(size), "", static_shape=static_shape or [size])
    pieces = split_evenly(flat, 4)
    assert [piece.shape.as_list() for piece in pieces] == ([[None]] * 4 if static_shape else [[n] for n in sizes])
    pieces = run(session8, pieces)
    assert list(map(len, pieces)) == sizes
    assert np.array_equal(np.concatenate(pieces), np.arange(size))
