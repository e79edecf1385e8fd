"""The contract of reducers, over reducers, numbers of towers, shapes, dtypes, operations, dense and sparse.

One graph for each reducer and number of towers holds all other combinations. The oracle is numpy in float64. Algorithms
meet every number of towers and, with up to four, every dtype; one of them every pair of both. Wrappers meet two numbers
of towers and three dtypes: the rest is up to the reducer inside, which is an algorithm.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices, source
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer, HierarchicalReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import IdentityReducer, OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.wrappers.conversion import DensifyReducer, WireDtypeReducer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPackingReducer,
    BucketReducer,
    ConcatAndSplitPackingReducer,
)
from tpack.reduction.wrappers.splitting import ShardingReducer, SplitBySizeReducer
from tpack.tower.grads import is_sparse

SHAPES = [(), (7,), (3, 0, 2), (64, 129)]
DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64]
FEW_DTYPES = [tf.bfloat16, tf.float32, tf.int32]
# The distance from 1 to the next number.
EPSILON = {tf.float16: 2**-10, tf.bfloat16: 2**-7, tf.float32: 2**-23, tf.float64: 2**-52}
# Where the sparse gradients are, and the rows of their tables.
SPARSE = (1, 5)
ROWS = 6


class Member(NamedTuple):
    """A reducer of the suite, which numbers of towers it serves, and whether it has to know the shapes.

    `epsilon` is the precision to which it keeps floating-point numbers, if that is less than their own.
    """

    reducer: Reducer
    serves: Callable[[int], bool] = lambda num_towers: True
    needs_shapes: bool = False
    epsilon: float = 0.0
    may_densify: bool = False


def one_tower(num_towers: int) -> bool:
    return num_towers == 1


def halves(num_towers: int) -> bool:
    return num_towers in (1, 2, 4, 8)


def four_towers(num_towers: int) -> bool:
    return num_towers in (1, 4)


def eight_towers(num_towers: int) -> bool:
    return num_towers in (1, 8)


def power_of_two(num_towers: int) -> bool:
    return num_towers in (1, 2, 4, 8)


PAIRS = [[0, 1], [2, 3]]
EVERY_SECOND = [[0, 2, 4, 6], [1, 3, 5, 7]]

# A new reducer joins with one line in one of these.
ALGORITHMS: dict[str, Member] = {
    "identity": Member(IdentityReducer(), one_tower),
    "one_device": Member(OneDeviceReducer()),
    "round_robin": Member(RoundRobinReducer()),
    "hierarchical": Member(HierarchicalReducer(), halves),
    "collective": Member(CollectiveReducer()),
    "nccl": Member(NcclReducer(), one_tower),
    "xring": Member(RingReducer()),
    "rechd": Member(HalvingDoublingReducer(), power_of_two),
    "psgpu": Member(ShuffleReducer()),
    "pscpu": Member(ShuffleReducer(["/device:CPU:0", "/device:CPU:5"], 3)),
    "pscpu_of_tasks": Member(CpuShuffleReducer()),
}
WRAPPERS: dict[str, Member] = {
    "sharded_one_device": Member(ShardingReducer(OneDeviceReducer(), 3)),
    "by_size": Member(SplitBySizeReducer([(RoundRobinReducer(), 32), (RingReducer(), -1)]), needs_shapes=True),
    "one_worker": Member(CompositeReducer(RoundRobinReducer(), RingReducer())),
    "round_robin/xring": Member(CompositeReducer(RoundRobinReducer(), RingReducer(), groups=PAIRS), four_towers),
    "collective/rechd": Member(
        CompositeReducer(CollectiveReducer(), HalvingDoublingReducer(), groups=EVERY_SECOND), eight_towers
    ),
    "packed_round_robin": Member(GradientPackingReducer(RoundRobinReducer(), 2)),
    "packed_collective": Member(GradientPackingReducer(CollectiveReducer(), 1)),
    "packed_xring": Member(GradientPackingReducer(RingReducer(2), 2)),
    "concat_split_round_robin": Member(ConcatAndSplitPackingReducer(RoundRobinReducer(), 3)),
    "small_tensors_collective": Member(AggregateSmallTensorPackingReducer(CollectiveReducer(), 1000, 3)),
    "buckets_hierarchical": Member(BucketReducer(HierarchicalReducer(), 100), halves),
    "float16_wire_round_robin": Member(WireDtypeReducer(RoundRobinReducer(), "float16"), epsilon=2**-10),
    "bfloat16_wire_xring": Member(WireDtypeReducer(RingReducer(), "bfloat16"), four_towers, epsilon=2**-7),
    "densify_one_device": Member(DensifyReducer(OneDeviceReducer()), may_densify=True),
}

MEMBERS = ALGORITHMS | WRAPPERS

# One tower is a test of its own.
NUM_TOWERS = (2, 3, 4, 5, 8)


def numbers_of_towers(name: str) -> list[int]:
    served = [k for k in NUM_TOWERS if MEMBERS[name].serves(k)]
    if name in ALGORITHMS:
        return served
    return [2, 5] if 5 in served else [k for k in served if k >= 4][:1]


def dtypes(name: str, num_towers: int) -> list[Any]:
    is_full = name == "xring" or (name in ALGORITHMS and num_towers <= 4)
    return DTYPES if is_full else FEW_DTYPES


CASES = [(name, k) for name in MEMBERS for k in numbers_of_towers(name)]


class Tower:
    """The gradients of one tower for one dtype: tensors, and the values they have as dense arrays.

    All of them are pieces of one vector that is fed, because a source for each would take most of the suite's time.
    """

    def __init__(self, rng: np.random.Generator, k: int, dtype: Any) -> None:
        self.device = f"/device:CPU:{k}"
        # Sparse gradients lie between the dense ones; their number of rows differs from tower to tower, and may be 0.
        shapes = [*SHAPES[:1], ((k + 1) % 5, 3), *SHAPES[1:], ((k + 4) % 5, 3)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        values = rng.integers(-9, 9, sum(sizes)) if dtype.is_integer else rng.standard_normal(sum(sizes))
        values = values.astype(dtype.as_numpy_dtype)
        pieces = np.split(values.astype(np.float64), np.cumsum(sizes)[:-1])
        self.values = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        with tf.device(self.device):
            fed = tf.placeholder(dtype, values.shape)
            self.tensors = [tf.reshape(t, s) for t, s in zip(tf.split(fed, sizes), shapes, strict=True)]
        self.feed = {fed: values}
        for n in SPARSE:
            self._make_sparse(n, rng.integers(0, 2, shapes[n][0]))

    def _make_sparse(self, n: int, indices: np.ndarray) -> None:
        with tf.device(self.device):
            fed = tf.placeholder(tf.int64, indices.shape)
            dense_shape = tf.constant([ROWS, 3], tf.int64)
            # What is fed has no place; its copy has.
            self.tensors[n] = tf.IndexedSlices(self.tensors[n], tf.identity(fed), dense_shape)
        self.feed[fed] = indices
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


def check_values(fetched: list[list[Any]], towers: Sequence[Tower], op: ReduceOp, dtype: Any, member: Member) -> None:
    epsilon = max(EPSILON[dtype], member.epsilon) if dtype.is_floating else 0
    num_towers = len(towers)
    for n, tensor in enumerate(towers[0].tensors):
        expected = sum(tower.values[n] for tower in towers) / op.divisor(num_towers)
        scale = max(np.abs(tower.values[n]).max(initial=0) for tower in towers)
        tolerance = epsilon * num_towers**2 * scale
        for k in range(num_towers):
            got = fetched[k][n]
            where = f"{dtype.name}, {op}, gradient {n} of tower {k}"
            assert hasattr(got, "indices") == is_sparse(tensor) or member.may_densify, where
            assert as_dense(got).shape == expected.shape, where
            np.testing.assert_allclose(as_dense(got), expected, rtol=0, atol=tolerance, err_msg=where)
            assert as_bytes(got) == as_bytes(fetched[0][n]), where


def tolerances(name: str) -> dict[str, float]:
    """Return the tolerances for random float32 numbers."""
    return dict.fromkeys(("rtol", "atol"), max(1e-5, 8 * MEMBERS[name].epsilon))


@pytest.mark.parametrize(("name", "num_towers"), CASES)
def test_reduce_gives_each_tower_the_numpy_result_on_its_device(
    name: str, num_towers: int, rng: np.random.Generator, graph: Any
) -> None:
    reducer = MEMBERS[name].reducer
    cases = []
    for dtype in dtypes(name, num_towers):
        for op in (ReduceOp.SUM,) if dtype.is_integer else ReduceOp:
            # Not shared between the operations: TensorFlow would join what both compute, such as indices.
            towers = [Tower(rng, k, dtype) for k in range(num_towers)]
            cases.append((reducer.reduce([tower.tensors for tower in towers], op), towers, op, dtype))

    outputs = [case[0] for case in cases]
    feed = {fed: value for _, towers, _, _ in cases for tower in towers for fed, value in tower.feed.items()}
    # What TensorFlow rewrites with four towers it rewrites with eight, in more time than all the rest takes.
    with cpu_session(graph, rewrites=num_towers <= 4) as session:
        first, placed = run_with_devices(session, outputs, feed)
        second = session.run(outputs, feed)

    for (reduced, towers, op, dtype), values, again in zip(cases, first, second, strict=True):
        check_values(values, towers, op, dtype, MEMBERS[name])
        for k, tower in enumerate(towers):
            assert list(map(as_bytes, values[k])) == list(map(as_bytes, again[k]))
            for tensor in parts(reduced[k]):
                assert placed[tensor.op.name] == tower.device, tensor.name


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("num_towers", [1, 2, 4])
def test_reduce_without_gradients_gives_empty_lists(name: str, num_towers: int, graph: Any) -> None:
    reducer = MEMBERS[name].reducer
    assert reducer.reduce([[] for _ in range(num_towers)]) == [[] for _ in range(num_towers)]
    assert reducer.reduce([()] * num_towers, ReduceOp.SUM) == [[]] * num_towers


@pytest.mark.parametrize("name", MEMBERS)
def test_reduce_of_one_tower_adds_nothing_to_the_graph(name: str, graph: Any) -> None:
    grads = [source(1.0, ""), slices([[1.0]], [0], "")]
    num_ops = len(graph.get_operations())
    reduced = MEMBERS[name].reducer.reduce([grads])
    assert all(got is grad for got, grad in zip(reduced[0], grads, strict=True))
    assert len(graph.get_operations()) == num_ops


@pytest.mark.parametrize(
    "name", [n for n, m in MEMBERS.items() if (m.serves(4) or n == "identity") and not m.needs_shapes]
)
def test_reduce_keeps_unknown_shapes_working(name: str, rng: np.random.Generator, session8: Any) -> None:
    values = random_towers(rng, 4, [(3, 5), (4,)])
    grads = [
        [source(v, device, static_shape=[4] if n else [None, 5]) for n, v in enumerate(tower)]
        for tower, device in zip(values, cpu_devices(4), strict=True)
    ]
    reduced = MEMBERS[name].reducer.reduce(grads, ReduceOp.SUM)
    assert [[grad.shape.rank for grad in tower] for tower in reduced] == [[2, 1]] * 4
    for tower, own in zip(run(session8, reduced), values, strict=True):
        for n, got in enumerate(tower):
            wanted = own[n] if name == "identity" else sum(values[k][n] for k in range(4))
            np.testing.assert_allclose(got, wanted, **tolerances(name))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    case=st.sampled_from(CASES),
    shapes=st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_reduce_of_any_shapes_matches_numpy(case: tuple[str, int], shapes: list[Any], seed: int) -> None:
    name, num_towers = case
    values = random_towers(np.random.default_rng(seed), num_towers, shapes)
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=True) as session:
        reduced = run(session, MEMBERS[name].reducer.reduce(dense_towers(values)))
    for n in range(len(shapes)):
        wanted = np.mean([tower[n] for tower in values], axis=0)
        for k in range(num_towers):
            np.testing.assert_allclose(reduced[k][n], wanted, **tolerances(name), err_msg=name)
