from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, dense_towers, run, source
from tpack.reduction.chunking import chunk_sizes, concat_flat, cut, cut_column, flatten_column, join_column, split_flat


@given(size=st.integers(0, 10**9), num_chunks=st.integers(1, 100))
def test_chunk_sizes_add_up_and_differ_by_one_at_most(size: int, num_chunks: int) -> None:
    sizes = chunk_sizes(size, num_chunks)
    assert len(sizes) == num_chunks
    assert sum(sizes) == size
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("size", "num_chunks"), [(10, 4), (3, 4), (0, 3), (8, 4), (5, 1), (1, 2)])
def test_cut_gives_the_chunk_sizes_also_of_an_unknown_shape(
    size: int, num_chunks: int, is_known: bool, session8: Any
) -> None:
    vector = source(np.arange(size), "", static_shape=[size if is_known else None])
    chunks = cut(vector, num_chunks)
    assert [chunk.shape.num_elements() for chunk in chunks] == (
        chunk_sizes(size, num_chunks) if is_known else [None] * num_chunks
    )
    values = run(session8, chunks)
    assert [len(value) for value in values] == chunk_sizes(size, num_chunks)
    assert np.concatenate(values).tolist() == list(range(size))


def test_cut_column_gives_the_chunks_of_all_towers_in_order(session8: Any) -> None:
    column = [source(np.arange(5) + 10 * k, device) for k, device in enumerate(cpu_devices(2))]
    chunks = cut_column(column, 3)
    assert [[piece.device for piece in pieces] for pieces in chunks] == [cpu_devices(2)] * 3
    values = [[piece.tolist() for piece in pieces] for pieces in run(session8, chunks)]
    assert values == [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4], [14]]]


@pytest.mark.parametrize(("shape", "num_chunks"), [((), 1), ((2, 0), 1), ((3,), 3), ((3, 3), 4)])
def test_cut_column_makes_no_chunk_that_is_known_to_be_empty(shape: Any, num_chunks: int, graph: Any) -> None:
    assert len(cut_column(dense_towers([[np.zeros(shape)]] * 2)[0], 4)) == num_chunks


def test_what_one_tower_knows_of_the_shape_holds_for_all(session8: Any) -> None:
    column = [
        source(np.ones((2, 3)), device, static_shape=shape)
        for device, shape in zip(cpu_devices(3), ([None, 3], [None, None], [2, None]), strict=True)
    ]
    assert [vector.shape.as_list() for vector in flatten_column(column)] == [[6]] * 3
    joined = join_column(cut_column(column, 2), column)
    assert [tensor.shape.as_list() for tensor in joined] == [[2, 3]] * 3
    assert run(session8, joined)[1].shape == (2, 3)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    num_towers=st.integers(1, 8),
    num_chunks=st.integers(1, 9),
    is_known=st.booleans(),
)
def test_join_column_undoes_cut_column(shape: Any, num_towers: int, num_chunks: int, is_known: bool) -> None:
    values = np.random.default_rng(len(shape)).standard_normal((num_towers, *shape))
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        static_shape = shape if is_known else [None] * len(shape)
        devices = cpu_devices(num_towers)
        column = [source(v, device, static_shape=static_shape) for v, device in zip(values, devices, strict=True)]
        joined = join_column(cut_column(column, num_chunks), column)
        assert [tensor.device for tensor in joined] == devices
        assert [tensor.shape.is_fully_defined() for tensor in joined] == [is_known or shape == ()] * num_towers
        for got, wanted in zip(run(session, joined), values, strict=True):
            np.testing.assert_array_equal(got, wanted)


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
