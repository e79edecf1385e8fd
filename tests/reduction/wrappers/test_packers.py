from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, random_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import Column, ReduceOp
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPacker,
    AggregateSmallTensorPackingReducer,
    ConcatAndSplitPacker,
    ConcatAndSplitPackingReducer,
    TensorPacker,
)


class _EvenPacker(TensorPacker):
    """Join the gradients with even numbers."""

    def group(self, columns: Sequence[Column]) -> list[list[int]]:
        return [[n] for n in range(1, len(columns), 2)] + ([list(range(0, len(columns), 2))] if columns else [])


def _pairs(towers: Sequence[Sequence[Any]]) -> list[list[tuple[Any, Any]]]:
    return [[(grad, f"v{n} of {k}") for n, grad in enumerate(tower)] for k, tower in enumerate(towers)]


def test_pairs_come_out_as_they_went_in(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 2, [(2, 3), (4,), ()])
    towers = dense_towers(values)
    packer = _EvenPacker()
    packs = packer.pack(_pairs(towers))
    assert packs[1][0] == (towers[1][1], "v1 of 1")
    assert packs[1][1][1] is None
    assert [[pack.shape.as_list() for pack, _ in tower] for tower in packs] == [[[4], [7]]] * 2
    assert [pack.device for pack, _ in packs[1]] == ["/device:CPU:1"] * 2
    unpacked = packer.unpack(packs)
    assert [[variable for _, variable in tower] for tower in unpacked] == [
        [f"v{n} of {k}" for n in range(3)] for k in range(2)
    ]
    grads = [[grad for grad, _ in tower] for tower in unpacked]
    for got, wanted in zip(run(session8, grads), values, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(got, wanted, strict=True))


def test_each_gradient_returns_to_its_own_device(graph: Any) -> None:
    tower = [source(1.0, f"/device:CPU:{n}") for n in (3, 2, 5)]
    packer = _EvenPacker()
    packs = packer.pack(_pairs([tower]))
    assert [pack.device for pack, _ in packs[0]] == ["/device:CPU:2", "/device:CPU:3"]
    assert [grad.device for grad, _ in packer.unpack(packs)[0]] == [grad.device for grad in tower]


def test_a_packer_remembers_what_it_packed_last(graph: Any) -> None:
    packer = _EvenPacker()
    packer.pack(_pairs([[tf.ones([2]), tf.ones([3]), tf.ones([4])]]))
    packs = packer.pack(_pairs([[tf.ones([5]), tf.ones([6])]]))
    assert [grad.shape.as_list() for grad, _ in packer.unpack(packs)[0]] == [[5], [6]]


def test_towers_without_gradients_have_no_packs(graph: Any) -> None:
    packer = _EvenPacker()
    assert packer.pack([[], []]) == [[], []]
    assert packer.unpack([[], []]) == [[], []]


def test_what_cannot_be_packed_is_refused(graph: Any) -> None:
    packer = _EvenPacker()
    with pytest.raises(ReductionError, match=r"gradient 1 \(.*\) is IndexedSlices: expected dense tensors"):
        packer.pack(_pairs([[tf.ones([]), slices([[1.0]], [0], "")]]))
    with pytest.raises(ReductionError, match="tower 1 has 0 gradients and tower 0 has 1"):
        packer.pack(_pairs([[tf.ones([])], []]))
    with pytest.raises(ReductionError, match="at least one tower, got none"):
        packer.pack([])


def test_packs_of_another_number_are_refused(graph: Any) -> None:
    packer = _EvenPacker()
    with pytest.raises(ReductionError, match=r"unpack got \[\] packs by tower: expected a call of pack\(\) first"):
        packer.unpack([])
    packs = packer.pack(_pairs([[tf.ones([])] * 3] * 2))
    with pytest.raises(ReductionError, match=r"got \[2, 1\] packs by tower: expected \[2, 2\]"):
        packer.unpack([packs[0], packs[1][:1]])
    with pytest.raises(ReductionError, match=r"got \[2\] packs by tower: expected \[2, 2\]"):
        packer.unpack(packs[:1])


def _pack_sizes(packer: ConcatAndSplitPacker, grads: list[Any]) -> list[Any]:
    return [pack.shape.num_elements() for pack, _ in packer.pack([[(grad, None) for grad in grads]])[0]]


@pytest.mark.parametrize(("num_packs", "sizes"), [(1, [11]), (2, [6, 5]), (4, [3, 3, 3, 2]), (13, [1] * 11 + [0] * 2)])
def test_sizes_of_packs_differ_by_one_at_most(num_packs: int, sizes: list[int], graph: Any) -> None:
    assert _pack_sizes(ConcatAndSplitPacker(num_packs), [tf.ones([2, 3]), tf.ones([]), tf.ones([4])]) == sizes


def test_each_dtype_has_packs_of_its_own(graph: Any) -> None:
    grads = [tf.ones([3]), tf.ones([5], tf.int64), tf.ones([4])]
    assert _pack_sizes(ConcatAndSplitPacker(2), grads) == [4, 3, 3, 2]


def test_packs_cut_through_variables(session8: Any) -> None:
    packer = ConcatAndSplitPacker(2)
    packs = packer.pack([[(source([1.0, 2.0, 3.0], ""), None), (source([[4.0], [5.0]], ""), None)]])
    assert [pack.tolist() for (pack,) in run(session8, [[pack] for pack, _ in packs[0]])] == [[1, 2, 3], [4, 5]]


def test_a_single_gradient_is_split_too(graph: Any) -> None:
    assert _pack_sizes(ConcatAndSplitPacker(2), [tf.ones([10])]) == [5, 5]


@pytest.mark.parametrize("num_packs", [1, 3, 50])
def test_unknown_shapes_and_more_packs_than_elements(num_packs: int, session8: Any) -> None:
    values = [[np.arange(6.0).reshape(2, 3) * (k + 1), np.float64(k)] for k in range(3)]
    grads = [
        [source(v, f"/device:CPU:{k}", static_shape=None if v.ndim else []) for v in tower]
        for k, tower in enumerate(values)
    ]
    hidden = [[tf.placeholder_with_default(grad, None) for grad in tower] for tower in grads]
    for tower, original in zip(hidden, grads, strict=True):
        for grad, placed in zip(tower, original, strict=True):
            grad.op._set_device(placed.device)
    reduced = ConcatAndSplitPackingReducer(RoundRobinReducer(), num_packs).reduce(hidden, ReduceOp.SUM)
    for tower in run(session8, reduced):
        assert np.array_equal(tower[0], np.arange(6.0).reshape(2, 3) * 6)
        assert tower[1] == 3.0


def test_the_inner_reducer_sees_packs(session8: Any) -> None:
    grads = dense_towers([[np.full(7, k, np.float32), np.float32(k)] for k in range(3)])
    run(session8, ConcatAndSplitPackingReducer(RoundRobinReducer(), 3).reduce(grads))
    sums = [op for op in session8.graph.get_operations() if op.type == "AddN"]
    assert sorted(op.outputs[0].shape.as_list() for op in sums) == [[2], [3], [3]]


def test_the_number_of_packs_is_checked() -> None:
    with pytest.raises(ConfigError, match="^ConcatAndSplitPacker got num_packs="):
        ConcatAndSplitPacker(0)
    with pytest.raises(ConfigError, match="got num_packs=-2: expected an integer of at least 1"):
        ConcatAndSplitPackingReducer(RoundRobinReducer(), -2)


def _packed(grads: list[Any], *limits: int) -> list[Any]:
    """Return the shapes of the packs, and the shape and the variable of what is left alone."""
    packs = AggregateSmallTensorPacker(*limits).pack([[(grad, f"v{n}") for n, grad in enumerate(grads)]])
    return [(pack.shape.as_list(), variable) if variable else pack.shape.as_list() for pack, variable in packs[0]]


def test_runs_of_small_tensors_are_joined_in_their_place(graph: Any) -> None:
    grads = [tf.ones([2, 2]), tf.ones([5]), tf.ones([]), tf.ones([3]), tf.ones([9]), tf.ones([4])]
    assert _packed(grads, 16, 9) == [([2, 2], "v0"), ([5], "v1"), [4], ([9], "v4"), ([4], "v5")]


def test_a_run_ends_at_the_largest_group(graph: Any) -> None:
    assert _packed([tf.ones([1])] * 5, 16, 2) == [[2], [2], ([1], "v4")]
    assert _packed([tf.ones([1])] * 2, 16, 1) == [([1], "v0"), ([1], "v1")]


def test_a_run_ends_at_another_dtype_or_an_unknown_shape(graph: Any) -> None:
    hidden = tf.placeholder(tf.float32, [None])
    grads = [tf.ones([1]), tf.ones([2]), tf.ones([3], tf.float16), tf.ones([4], tf.float16), hidden, hidden]
    assert _packed(grads) == [[3], [7], ([None], "v4"), ([None], "v5")]


def test_empty_tensors_and_scalars_are_small(graph: Any) -> None:
    assert _packed([tf.ones([0, 3]), tf.ones([]), tf.ones([0])], 4, 16) == [[1]]
    assert _packed([]) == []


def test_the_defaults_are_the_seeds(graph: Any) -> None:
    limit = 1048576 // 4
    assert _packed([tf.ones([limit]), tf.ones([1]), tf.ones([limit + 1])]) == [[limit + 1], ([limit + 1], "v2")]
    assert _packed([tf.ones([])] * 17) == [[16], ([], "v16")]


@pytest.mark.parametrize(("limits", "got"), [((0, 1), "bytes=0"), ((1, 0), "group=0")])
def test_limits_are_checked(limits: tuple[int, int], got: str) -> None:
    with pytest.raises(ConfigError, match=f"AggregateSmallTensorPacker got agg_small_grads_max_{got}: expected"):
        AggregateSmallTensorPacker(*limits)
    with pytest.raises(ConfigError, match=f"agg_small_grads_max_{got}"):
        AggregateSmallTensorPackingReducer(RoundRobinReducer(), *limits)
