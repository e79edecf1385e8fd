"""What every reducer promises, over reducers, numbers of towers, shapes, dtypes, operations, dense and sparse.

One graph for each reducer and number of towers holds all other combinations. The oracle is numpy in float64.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices, source
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.collective import CollectiveReducer
from tpack.reduction.columns import is_sparse
from tpack.reduction.hierarchical import HierarchicalReducer
from tpack.reduction.identity import IdentityReducer
from tpack.reduction.nccl import NcclReducer
from tpack.reduction.one_device import OneDeviceReducer
from tpack.reduction.packing import GradientPackingReducer
from tpack.reduction.round_robin import RoundRobinReducer

SHAPES = [(), (7,), (0,), (3, 0, 2), (64, 129), (5, 3)]
DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64]
# The distance from 1 to the next number; that of integers is taken as 0, because their sums are exact.
EPSILON = {tf.float16: 2**-10, tf.bfloat16: 2**-7, tf.float32: 2**-23, tf.float64: 2**-52}
# Where the sparse gradients are, and the rows of their tables.
SPARSE = (1, 5)
ROWS = 6

REDUCERS: dict[str, Reducer] = {
    "identity": IdentityReducer(),
    "one_device": OneDeviceReducer(),
    "round_robin": RoundRobinReducer(),
    "hierarchical": HierarchicalReducer(),
    "collective": CollectiveReducer(),
    "nccl": NcclReducer(),
    "packed_round_robin": GradientPackingReducer(RoundRobinReducer(), 2),
    "packed_collective": GradientPackingReducer(CollectiveReducer(), 1),
}


def serves(name: str, num_towers: int) -> bool:
    if name in ("identity", "nccl"):
        return num_towers == 1
    if "hierarchical" in name:
        return num_towers in (1, 4, 8)
    return True


CASES = [(name, k) for name in REDUCERS for k in (1, 2, 3, 4, 5, 8) if serves(name, k)]


class Tower:
    """The gradients of one tower for one dtype: tensors, and the values they have as dense arrays.

    All of them are pieces of one variable, because a variable for each would take most of the suite's time.
    """

    def __init__(self, rng: np.random.Generator, k: int, dtype: Any) -> None:
        self.device = f"/device:CPU:{k}"
        # Sparse gradients lie between the dense ones; their number of rows differs from tower to tower, and may be 0.
        shapes = [*SHAPES[:1], ((k + 1) % 5, 3), *SHAPES[1:4], ((k + 4) % 5, 3), *SHAPES[4:]]
        sizes = [int(np.prod(shape)) for shape in shapes]
        values = rng.integers(-9, 9, sum(sizes)) if dtype.is_integer else rng.standard_normal(sum(sizes))
        values = values.astype(dtype.as_numpy_dtype)
        pieces = np.split(values.astype(np.float64), np.cumsum(sizes)[:-1])
        with tf.device(self.device):
            self.tensors = [tf.reshape(t, s) for t, s in zip(tf.split(source(values, ""), sizes), shapes, strict=True)]
        self.values = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        for n in SPARSE:
            indices = rng.integers(0, 2, shapes[n][0])
            with tf.device(self.device):
                dense_shape = tf.constant([ROWS, 3], tf.int64)
            self.tensors[n] = tf.IndexedSlices(self.tensors[n], source(indices, self.device), dense_shape)
            rows, self.values[n] = self.values[n], np.zeros((ROWS, 3))
            np.add.at(self.values[n], indices, rows)


def as_dense(value: Any) -> np.ndarray:
    """Return a fetched gradient as float64."""
    if not hasattr(value, "indices"):
        return np.asarray(value).astype(np.float64)
    dense = np.zeros(value.dense_shape)
    np.add.at(dense, value.indices, value.values.astype(np.float64))
    return dense


def as_bytes(value: Any) -> bytes:
    return value.values.tobytes() + value.indices.tobytes() if hasattr(value, "indices") else value.tobytes()


def parts(grads: Sequence[Any]) -> list[Any]:
    """Return the tensors that gradients consist of, but for the dense shapes, which are constants without a place."""
    return [part for grad in grads for part in ((grad.values, grad.indices) if is_sparse(grad) else (grad,))]


def check_values(fetched: list[list[Any]], towers: Sequence[Tower], op: ReduceOp, dtype: Any) -> None:
    num_towers = len(towers)
    for n, tensor in enumerate(towers[0].tensors):
        expected = sum(tower.values[n] for tower in towers) / op.divisor(num_towers)
        scale = max(np.abs(tower.values[n]).max(initial=0) for tower in towers)
        tolerance = EPSILON.get(dtype, 0) * num_towers**2 * scale
        for k in range(num_towers):
            got = fetched[k][n]
            where = f"{dtype.name}, {op}, gradient {n} of tower {k}"
            assert hasattr(got, "indices") == is_sparse(tensor), where
            assert as_dense(got).shape == expected.shape, where
            np.testing.assert_allclose(as_dense(got), expected, rtol=0, atol=tolerance, err_msg=where)
            assert as_bytes(got) == as_bytes(fetched[0][n]), where


@pytest.mark.parametrize(("name", "num_towers"), CASES)
def test_reduce_gives_each_tower_the_numpy_result_on_its_device(
    name: str, num_towers: int, rng: np.random.Generator, session8: Any
) -> None:
    reducer = REDUCERS[name]
    cases = []
    for dtype in DTYPES:
        for op in (ReduceOp.SUM,) if dtype.is_integer else ReduceOp:
            towers = [Tower(rng, k, dtype) for k in range(num_towers)]
            cases.append((reducer.reduce([tower.tensors for tower in towers], op), towers, op, dtype))

    outputs = [case[0] for case in cases]
    session8.run(tf.global_variables_initializer())
    first, placed = run_with_devices(session8, outputs)
    second, _ = run_with_devices(session8, outputs)

    for (reduced, towers, op, dtype), values, again in zip(cases, first, second, strict=True):
        check_values(values, towers, op, dtype)
        for k, tower in enumerate(towers):
            assert list(map(as_bytes, values[k])) == list(map(as_bytes, again[k]))
            for tensor in parts(reduced[k]):
                assert placed[tensor.op.name] == tower.device, tensor.name


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("num_towers", [1, 2, 4])
def test_reduce_without_gradients_gives_empty_lists(name: str, num_towers: int, graph: Any) -> None:
    reducer = REDUCERS[name]
    assert reducer.reduce([[] for _ in range(num_towers)]) == [[] for _ in range(num_towers)]
    assert reducer.reduce([()] * num_towers, ReduceOp.SUM) == [[]] * num_towers


@pytest.mark.parametrize("name", REDUCERS)
def test_reduce_of_one_tower_adds_nothing_to_the_graph(name: str, graph: Any) -> None:
    grads = [source(1.0, ""), slices([[1.0]], [0], "")]
    num_ops = len(graph.get_operations())
    reduced = REDUCERS[name].reduce([grads])
    assert all(got is grad for got, grad in zip(reduced[0], grads, strict=True))
    assert len(graph.get_operations()) == num_ops


@pytest.mark.parametrize("name", [name for name in REDUCERS if serves(name, 4) or name == "identity"])
def test_reduce_keeps_unknown_shapes_working(name: str, rng: np.random.Generator, session8: Any) -> None:
    values = random_towers(rng, 4, [(3, 5), (4,)])
    grads = [
        [source(v, device, static_shape=[4] if n else [None, 5]) for n, v in enumerate(tower)]
        for tower, device in zip(values, cpu_devices(4), strict=True)
    ]
    reduced = REDUCERS[name].reduce(grads, ReduceOp.SUM)
    assert [[grad.shape.rank for grad in tower] for tower in reduced] == [[2, 1]] * 4
    for tower, own in zip(run(session8, reduced), values, strict=True):
        for n, got in enumerate(tower):
            wanted = own[n] if name == "identity" else sum(values[k][n] for k in range(4))
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    num_towers=st.integers(1, 8),
    shapes=st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_reduce_of_any_shapes_matches_numpy(num_towers: int, shapes: list[Any], seed: int) -> None:
    values = random_towers(np.random.default_rng(seed), num_towers, shapes)
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        grads = dense_towers(values)
        names = [name for name in REDUCERS if serves(name, num_towers)]
        results = run(session, [REDUCERS[name].reduce(grads) for name in names])
    for name, reduced in zip(names, results, strict=True):
        for n in range(len(shapes)):
            wanted = np.mean([tower[n] for tower in values], axis=0)
            for k in range(num_towers):
                np.testing.assert_allclose(reduced[k][n], wanted, rtol=1e-5, atol=1e-5, err_msg=name)
