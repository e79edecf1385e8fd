"""16 bits on the wire: the bound of the error, and that the bytes and the sums are where the docstring says."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices, dense_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.wrappers.conversion import WireDtypeReducer
from tpack.reduction.wrappers.packers import ConcatAndSplitPackingReducer

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
# The smallest distance of two float16, halved.
TINY = {"float16": 2.0**-25, "bfloat16": 0.0}

each_wire_dtype = pytest.mark.parametrize("wire_dtype", UNIT)
INNER: list[Reducer] = [
    OneDeviceReducer(),
    RoundRobinReducer(),
    HierarchicalReducer(),
    ShuffleReducer(),
    RingReducer(),
    CollectiveReducer(),
]


def _bound(inner: Reducer, wire_dtype: str, num_towers: int) -> float:
    unit = UNIT[wire_dtype]
    if isinstance(inner, OneDeviceReducer | RoundRobinReducer):
        return 2 * unit + unit**2 + num_towers * 2.0**-23
    return (1 + unit) ** (num_towers + 1) - 1 + num_towers * 2.0**-23


@each_wire_dtype
@pytest.mark.parametrize(
    ("inner", "num_towers"),
    [(inner, k) for inner in INNER for k in (2, 3, 4, 8) if k in (4, 8) or inner.name != "hierarchical"],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_error_is_within_the_bound(
    wire_dtype: str, inner: Reducer, num_towers: int, dtype: Any, rng: Any, session8: Any
) -> None:
    # Numbers of all magnitudes that float16 has, to the smallest, and of both signs.
    shape = (num_towers, 3001)
    values = (rng.standard_normal(shape) * 2.0 ** rng.uniform(-26, 10, shape)).astype(dtype)
    cases = [
        (op, WireDtypeReducer(inner, wire_dtype).reduce(dense_towers([[own] for own in values]), op)) for op in ReduceOp
    ]
    results = run(session8, [reduced for _, reduced in cases])
    for (op, _), result in zip(cases, results, strict=True):
        divisor = op.divisor(num_towers)
        exact = values.astype(np.float64).sum(axis=0) / divisor
        scale = np.abs(values.astype(np.float64)).sum(axis=0) / divisor
        allowed = _bound(inner, wire_dtype, num_towers) * scale + 2 * num_towers * TINY[wire_dtype]
        for tower in result:
            assert tower[0].dtype == dtype
            assert np.array_equal(tower[0], result[0][0])
            assert (np.abs(tower[0] - exact) <= allowed).all()


def _transfers_and_sums(session: Any, reduced: list[list[Any]]) -> tuple[set[Any], set[Any]]:
    """Return the dtypes of what crosses between devices, and those in which numbers are added."""
    session.run(tf.global_variables_initializer())
    metadata = tf.RunMetadata()
    # Operations are run and no values fetched, because those would cross to the first device.
    targets = [grad.op for tower in reduced for grad in tower]
    session.run(targets, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    nodes = [node for partition in metadata.partition_graphs for node in partition.node]
    sent = {tf.as_dtype(node.attr["T"].type).name for node in nodes if node.op == "_Send"}
    return sent, {tf.as_dtype(node.attr["T"].type).name for node in nodes if node.op == "AddN"}


@each_wire_dtype
@pytest.mark.parametrize("inner", INNER[:4], ids=lambda inner: inner.name)
def test_transfers_are_16_bits_wide_and_sums_are_float32(wire_dtype: str, inner: Reducer, session8: Any) -> None:
    grads = dense_towers([[np.full((5, 7), k, np.float32)] for k in range(4)])
    assert _transfers_and_sums(session8, inner.reduce(grads)) == ({"float32"}, {"float32"})
    reduced = WireDtypeReducer(inner, wire_dtype).reduce(grads)
    assert _transfers_and_sums(session8, reduced) == ({wire_dtype}, {"float32"})


@pytest.mark.parametrize("inner", INNER[:2], ids=lambda inner: inner.name)
def test_small_numbers_count_beside_a_large_one(inner: Reducer, session8: Any) -> None:
    # In float16, 2048 + 1 is 2048.
    values = [[np.float32(2048)]] + [[np.float32(1)]] * 6
    reduced = WireDtypeReducer(inner, "float16").reduce(dense_towers(values), ReduceOp.SUM)
    assert run(session8, reduced) == [[2054.0]] * 7


@pytest.mark.parametrize("inner", INNER[:2], ids=lambda inner: inner.name)
def test_a_mean_does_not_overflow_on_its_way(inner: Reducer, session8: Any) -> None:
    values = [[np.float32(40000)]] * 4
    reduced = WireDtypeReducer(inner, "float16").reduce(dense_towers(values))
    assert run(session8, reduced) == [[40000.0]] * 4


def test_mixed_lists(session8: Any) -> None:
    towers = []
    for k, device in enumerate(cpu_devices(2)):
        dense = [source(np.asarray(k, dtype), device) for dtype in (np.float32, np.int32, np.float16, np.int64)]
        sparse = slices([[1 / 3]], [k], device, rows=4)
        towers.append([*dense, sparse, slices([[7]], [k], device, dtype=tf.int32), source(np.zeros((0, 2)), device)])
    reducer = WireDtypeReducer(RoundRobinReducer(), "bfloat16")
    reduced = reducer.reduce(towers, ReduceOp.SUM)
    assert reducer.name == "bfloat16_wire_round_robin"
    assert [grad.device for grad in reduced[1]] == ["/device:CPU:1"] * 7
    first, second = run(session8, reduced)
    assert second[:4] == [1] * 4
    assert [value.dtype for value in second[:4]] == [np.float32, np.int32, np.float16, np.int64]
    assert first[4].values.dtype == np.float32
    assert first[4].values.tolist() == [[0.333984375]] * 2
    assert first[4].indices.tolist() == [0, 1]
    assert first[4].dense_shape.tolist() == [4, 1]
    assert first[5].values.tolist() == [[7]] * 2
    assert first[6].shape == (0, 2)


def test_sparse_means(session8: Any) -> None:
    grads = [[slices([[float(k)]], [k], f"/device:CPU:{k}")] for k in range(2)]
    first, _ = run(session8, WireDtypeReducer(RoundRobinReducer(), tf.float16).reduce(grads))
    assert first[0].values.tolist() == [[0.0], [0.5]]


def test_unknown_shapes(session8: Any) -> None:
    grads = [[source(np.full((2, 3), k + 1.0), f"/device:CPU:{k}", static_shape=[None, 3])] for k in range(2)]
    reduced = WireDtypeReducer(RoundRobinReducer(), "float16").reduce(grads)
    assert reduced[0][0].shape.as_list() == [None, 3]
    assert np.array_equal(run(session8, reduced), np.full((2, 1, 2, 3), 1.5))


def test_it_wraps_and_is_wrapped(session8: Any) -> None:
    values = [[np.full(9, k, np.float32), np.float32(k)] for k in range(2)]
    for reducer in (
        WireDtypeReducer(ConcatAndSplitPackingReducer(RoundRobinReducer(), 2), "float16"),
        ConcatAndSplitPackingReducer(WireDtypeReducer(RoundRobinReducer(), "float16"), 2),
    ):
        first, second = run(session8, reducer.reduce(dense_towers(values)))
        assert first[0].tolist() == second[0].tolist() == [0.5] * 9
        assert first[1] == second[1] == 0.5


@pytest.mark.parametrize("op", ReduceOp)
def test_lists_without_gradients_and_one_tower(op: ReduceOp, graph: Any) -> None:
    reducer = WireDtypeReducer(RoundRobinReducer(), "float16")
    assert reducer.reduce([[], []], op) == [[], []]
    grad = source(1.0, "")
    assert reducer.reduce([[grad]], op) == [[grad]]


def test_limits_are_those_of_the_dtype_on_the_wire(graph: Any) -> None:
    grads = dense_towers([[np.float32(1)], [np.float32(2)]], ["/device:GPU:0", "/device:GPU:1"])
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="NcclReducer got .* of bfloat16: expected one of"):
        WireDtypeReducer(NcclReducer(), "bfloat16").reduce(grads)
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        WireDtypeReducer(HierarchicalReducer(), "float16").reduce([*grads, grads[0]])
    assert len(graph.get_operations()) == num_ops


def test_the_mean_of_integers_is_refused(graph: Any) -> None:
    with pytest.raises(ReductionError, match="mean of integers"):
        WireDtypeReducer(RoundRobinReducer(), "float16").reduce(dense_towers([[np.int32(1)]] * 2))


@pytest.mark.parametrize(
    ("wire_dtype", "message"),
    [
        ("float32", "WireDtypeReducer got wire_dtype='float32': expected float16 or bfloat16"),
        (tf.float64, "WireDtypeReducer got wire_dtype='float64': expected float16 or bfloat16"),
        ("half", "WireDtypeReducer got wire_dtype='half': expected float16 or bfloat16"),
        (None, "WireDtypeReducer got wire_dtype=None: expected text or a DType"),
        (16, "WireDtypeReducer got wire_dtype=16: expected text or a DType"),
    ],
)
def test_other_wire_dtypes_are_refused(wire_dtype: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WireDtypeReducer(RoundRobinReducer(), wire_dtype)
