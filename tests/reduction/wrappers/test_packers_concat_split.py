from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run, source
from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import ReduceOp
from tpack.reduction.wrappers.packers import ConcatAndSplitPacker, ConcatAndSplitPackingReducer


def _pack_sizes(packer: ConcatAndSplitPacker, grads: list[Any]) -> list[Any]:
    return [pack.shape.num_elements() for pack, _ in packer.pack([[(grad, None) for grad in grads]])[0]]


@pytest.mark.parametrize(("num_packs", "sizes"), [(1, [11]), (2, [5, 6]), (4, [2, 2, 2, 5]), (13, [0] * 12 + [11])])
def test_packs_have_one_size_but_for_the_last(num_packs: int, sizes: list[int], graph: Any) -> None:
    assert _pack_sizes(ConcatAndSplitPacker(num_packs), [tf.ones([2, 3]), tf.ones([]), tf.ones([4])]) == sizes


def test_each_dtype_has_packs_of_its_own(graph: Any) -> None:
    grads = [tf.ones([3]), tf.ones([5], tf.int64), tf.ones([4])]
    assert _pack_sizes(ConcatAndSplitPacker(2), grads) == [3, 4, 2, 3]


def test_packs_cut_through_variables(session8: Any) -> None:
    packer = ConcatAndSplitPacker(2)
    packs = packer.pack([[(source([1.0, 2.0, 3.0], ""), None), (source([[4.0], [5.0]], ""), None)]])
    assert [pack.tolist() for (pack,) in run(session8, [[pack] for pack, _ in packs[0]])] == [[1, 2], [3, 4, 5]]


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
    assert sorted(op.outputs[0].shape.as_list() for op in sums) == [[2], [2], [4]]


def test_the_number_of_packs_is_checked() -> None:
    with pytest.raises(ConfigError, match="wanted 1 pack or more, got 0"):
        ConcatAndSplitPacker(0)
    with pytest.raises(ConfigError, match="wanted 1 pack or more, got -2"):
        ConcatAndSplitPackingReducer(RoundRobinReducer(), -2)
